package hubapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"slipway/internal/backoff"
	"slipway/internal/clock"
	"slipway/internal/errs"
)

// ClientConfig says where the service is. Exactly one of Socket, Dial and URL is set.
type ClientConfig struct {
	Socket string // an agent's api.sock: the caller is known by it, and Token must be empty
	// Dial opens a connection to the service by which the caller is known, and Token must be empty.
	Dial  func(context.Context) (net.Conn, error) `json:"-"`
	URL   string                                  // such as "https://hub.example.org/slipway"
	Token Token
}

// Token is a bearer token. It cannot be printed; convert it to string where it leaves.
type Token string

// String returns a mask.
func (Token) String() string { return "[token]" }

// GoString returns a mask.
func (Token) GoString() string { return "[token]" }

// MarshalText returns a mask.
func (Token) MarshalText() ([]byte, error) { return []byte("[token]"), nil }

// Client speaks to one service as one caller. Its errors are of the kinds of internal/errs. It is safe for concurrent
// use.
type Client struct {
	http  *http.Client
	base  string
	api   string // the path below base
	where string // for messages
	token Token
	pause func(context.Context, int) error // between two tries of a stream
}

const (
	answerLimit = 64 << 20 // of a JSON answer
	refusal     = 64 << 10 // of an error's body
)

// NewClient makes a client. It does not connect yet.
func NewClient(cfg ClientConfig) (*Client, error) {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 16, IdleConnTimeout: 30 * time.Second,
		DisableCompression: true,
	}
	c := &Client{
		http: &http.Client{Transport: transport, CheckRedirect: noRedirect}, token: cfg.Token, api: Base,
		pause: backOff,
	}
	switch {
	case cfg.Dial != nil && cfg.Socket == "" && cfg.URL == "":
		transport.Proxy = nil
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return cfg.Dial(ctx) }
		c.base, c.where = "http://slipway", "the end of the link"
	case cfg.Socket != "" && cfg.Dial == nil && cfg.URL == "":
		dialer := net.Dialer{Timeout: 5 * time.Second}
		transport.Proxy = nil
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", cfg.Socket)
		}
		c.base, c.where = "http://slipway", cfg.Socket
	case cfg.Socket == "" && cfg.Dial == nil && cfg.URL != "":
		u, err := url.Parse(cfg.URL)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			return nil, errs.Bad("url", cfg.URL, "an address such as https://hub.example.org:8090")
		}
		c.base = strings.TrimRight(u.Scheme+"://"+u.Host+u.EscapedPath(), "/")
		c.where = c.base
	default:
		return nil, errs.New(errs.Missing, "the service's address is not known").
			With("set SLIPWAY_URL and SLIPWAY_TOKEN, or run inside a session")
	}
	return c, nil
}

// noRedirect keeps the token from following a redirect to another host.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// backOff waits before try n, from 0, of a broken stream.
func backOff(ctx context.Context, n int) error {
	clock.Sleep(ctx, backoff.Delay(100*time.Millisecond, 2*time.Second, n+1, rand.Float64()))
	return ctx.Err()
}

// open makes a request, with a body of JSON unless in is nil, and gives the answer's open body if it is a success.
func (c *Client) open(ctx context.Context, method, path string, in any, header http.Header) (*http.Response, error) {
	if in == nil {
		return c.send(ctx, method, path, nil, header)
	}
	b, err := json.Marshal(in)
	if err != nil {
		return nil, fmt.Errorf("%s %s: encode the request: %w", method, path, err)
	}
	all := http.Header{"Content-Type": {"application/json"}}
	maps.Copy(all, header)
	return c.send(ctx, method, path, bytes.NewReader(b), all)
}

// sized is a body whose length is known beforehand.
type sized struct {
	io.Reader
	size int64
}

// send makes a request with a body as it is.
func (c *Client) send(
	ctx context.Context, method, path string, body io.Reader, header http.Header,
) (*http.Response, error) {
	what := method + " " + path
	req, err := http.NewRequestWithContext(ctx, method, c.base+c.api+path, body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if s, ok := body.(sized); ok {
		req.ContentLength = s.size
	}
	for name, values := range header {
		req.Header[name] = values
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+string(c.token))
	}
	resp, err := c.http.Do(req)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("%s: %w", what, ctx.Err())
	case err != nil:
		return nil, unreachable(c.where, err)
	case resp.StatusCode/100 == 2:
		return resp, nil
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, refusal))
	if err != nil {
		return nil, unreachable(c.where, err)
	}
	err = decodeError(resp.StatusCode, b)
	if e, ok := errors.AsType[*errs.Error](err); ok && resp.Header.Get("X-Jupyterhub-Version") != "" &&
		strings.HasSuffix(e.Message, notOurs) {
		err = errs.New(e.Kind, "%s is a JupyterHub, not Slipway", c.where).
			With("the service's own address is on its page at the Hub, " + c.where + "/services/slipway/ssh")
	}
	return nil, err
}

// call makes a request and decodes its answer into out, unless out is nil.
func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	resp, err := c.open(ctx, method, path, in, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if out == nil {
		_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, answerLimit))
		return err
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, answerLimit)).Decode(out); err != nil {
		return garbled(method+" "+path, err)
	}
	return nil
}

// fetch makes a request whose answer is one JSON value of T.
func fetch[T any](ctx context.Context, c *Client, method, path string, in any) (T, error) {
	var out T
	err := c.call(ctx, method, path, in, &out)
	return out, err
}

// query writes a path's query, leaving out what is empty.
func query(path string, pairs ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// path joins words to a path; each word is escaped whole.
func path(words ...string) string {
	var b strings.Builder
	for _, w := range words {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(w))
	}
	return b.String()
}

func number(n int64) string { return strconv.FormatInt(n, 10) }
