package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"

	"slipway/internal/errs"
)

// Client asks one agent. The agent is the user's and is not trusted: every answer is bounded, every name is checked.
// How long an answer may take is the context's matter.
type Client struct {
	// Dial opens a stream to the agent's control door.
	Dial func(ctx context.Context) (net.Conn, error)
}

// Status asks where the app is.
func (c Client) Status(ctx context.Context) (Status, error) {
	body, _, err := c.do(ctx, http.MethodGet, "/status", nil, 0)
	if err != nil {
		return Status{}, err
	}
	defer body.Close()
	b, err := io.ReadAll(io.LimitReader(body, maxStatus))
	if err != nil {
		return Status{}, errs.New(errs.Unavailable, "read the agent's status: %w", err)
	}
	return ParseStatus(b)
}

// Activity asks what goes on in the session. The agent asks its app in turn, so an answer may take some seconds.
func (c Client) Activity(ctx context.Context) (Activity, error) {
	body, _, err := c.do(ctx, http.MethodGet, "/activity", nil, 0)
	if err != nil {
		return Activity{}, err
	}
	defer body.Close()
	b, err := io.ReadAll(io.LimitReader(body, maxActivity))
	if err != nil {
		return Activity{}, errs.New(errs.Unavailable, "read the agent's account of its session: %w", err)
	}
	return parseActivity(b)
}

// Notify shows text, as one line of at most NoticeLimit bytes, on the session's terminals. That there is none is no
// error.
func (c Client) Notify(ctx context.Context, text string) error {
	b, err := json.Marshal(Notice{Text: text})
	if err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	return c.tell(ctx, http.MethodPost, "/notify", bytes.NewReader(b), int64(len(b)))
}

// Doctor has the workload's data looked at once more. What is found comes to the service by itself.
func (c Client) Doctor(ctx context.Context) error {
	return c.tell(ctx, http.MethodPost, "/doctor", nil, 0)
}

// Watch calls f with the status, at once and each time it changes. It returns f's error, the context's, nil when the
// agent ended the watch, and an error of kind Unavailable when the agent was lost.
func (c Client) Watch(ctx context.Context, f func(Status) error) error {
	body, _, err := c.do(ctx, http.MethodGet, "/watch", nil, 0)
	if err != nil {
		return err
	}
	defer body.Close()
	err = readStatuses(body, f)
	if ctx.Err() != nil && err != nil {
		return ctx.Err()
	}
	return err
}

// Launch starts the app. Repeating a launch is harmless; another launch is a Conflict. That the app cannot be started
// is no error here: its status says so.
func (c Client) Launch(ctx context.Context, app App) error {
	b, err := json.Marshal(app)
	if err != nil {
		return fmt.Errorf("launch %s: %w", app.Launch, err)
	}
	return c.tell(ctx, http.MethodPost, "/app", bytes.NewReader(b), int64(len(b)))
}

// Put writes an input file of size bytes into the work directory.
func (c Client) Put(ctx context.Context, name string, size int64, r io.Reader) error {
	if err := CheckName(name); err != nil {
		return err
	}
	if size < 0 || size > FileLimit {
		return errs.Bad("size", size, fmt.Sprintf("a file has at most %d bytes", FileLimit))
	}
	return c.tell(ctx, http.MethodPut, "/files/"+url.PathEscape(name), io.LimitReader(r, size), size)
}

// Log returns the app's output from byte from on; with follow until the app has exited. What has been dropped of a
// session's output is skipped. At most FileLimit bytes are given.
func (c Client) Log(ctx context.Context, from int64, follow bool) (io.ReadCloser, error) {
	q := url.Values{"from": {strconv.FormatInt(from, 10)}}
	if follow {
		q.Set("follow", "1")
	}
	body, _, err := c.do(ctx, http.MethodGet, "/log?"+q.Encode(), nil, 0)
	if err != nil {
		return nil, err
	}
	return limited{io.LimitReader(body, FileLimit), body}, nil
}

// File returns a file of the work directory and its size.
func (c Client) File(ctx context.Context, name string) (io.ReadCloser, int64, error) {
	if err := CheckName(name); err != nil {
		return nil, 0, err
	}
	body, size, err := c.do(ctx, http.MethodGet, "/files/"+url.PathEscape(name), nil, 0)
	if err != nil {
		return nil, 0, err
	}
	if size < 0 || size > FileLimit {
		_ = body.Close()
		return nil, 0, errs.New(errs.Invalid, "file %q: the agent gives its size as %d", name, size)
	}
	return limited{io.LimitReader(body, size), body}, size, nil
}

// End ends the app, and the agent after it. It returns when the app has ended.
func (c Client) End(ctx context.Context) error { return c.tell(ctx, http.MethodPost, "/end", nil, 0) }

func (c Client) tell(ctx context.Context, method, path string, body io.Reader, size int64) error {
	answer, _, err := c.do(ctx, method, path, body, size)
	if err != nil {
		return err
	}
	return answer.Close()
}

// do asks once, over a stream of its own.
func (c Client) do(ctx context.Context, method, path string, body io.Reader, size int64) (io.ReadCloser, int64, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://agent"+path, body)
	if err != nil {
		return nil, 0, err
	}
	if req.ContentLength = size; size == 0 {
		req.Body = http.NoBody
	}
	t := http.Transport{
		DialContext:            func(ctx context.Context, _, _ string) (net.Conn, error) { return c.Dial(ctx) },
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
	}
	res, err := t.RoundTrip(req)
	if err != nil {
		return nil, 0, unreached(ctx, method, path, err)
	}
	if res.StatusCode/100 != 2 {
		defer res.Body.Close()
		return nil, 0, readFault(res.StatusCode, res.Body)
	}
	return res.Body, res.ContentLength, nil
}

func unreached(ctx context.Context, method, path string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if _, ok := errors.AsType[*errs.Error](err); ok {
		return fmt.Errorf("ask the agent: %s %s: %w", method, path, err)
	}
	return errs.New(errs.Unavailable, "ask the agent: %s %s: %w", method, path, err)
}

type limited struct {
	io.Reader
	io.Closer
}
