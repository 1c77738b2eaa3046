package hub

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"slipway/internal/errs"
	"slipway/internal/secret"
)

// call is one question to the Hub.
type call struct {
	method  string
	path    string // below the API, escaped
	url     string // whole, instead of path: for what the administrator may put elsewhere
	query   url.Values
	token   secret.Text // empty: none is sent
	body    any         // sent as JSON; url.Values as a form; nil: nothing
	accept  string
	what    string        // for errors: "start server alice/x"
	scope   string        // that the token needs, for errors
	careful bool          // asking twice could do it twice
	time    time.Duration // zero: askTime
	limit   int64         // of the answer; zero: answerLimit
}

// userPath returns a user's path below the API. A name may hold anything, a slash too.
func userPath(name string, rest ...string) string {
	path := "/users/" + segment(name)
	for _, r := range rest {
		path += "/" + r
	}
	return path
}

// serverPath returns the path of a user's server; the default one has no name.
func serverPath(user, server string) string {
	if server == "" {
		return userPath(user, "server")
	}
	return userPath(user, "servers", segment(server))
}

// segment escapes a name. Dots alone would be taken for a step in the path.
func segment(name string) string {
	if name == "." || name == ".." {
		return strings.ReplaceAll(name, ".", "%2E")
	}
	return url.PathEscape(name)
}

// ask sends k and reads the answer into into, which may be nil. It gives the status, which is of the 200s when there is
// no error.
func (c *Client) ask(ctx context.Context, k call, into any) (int, error) {
	inner, cancel := context.WithTimeout(ctx, cmp.Or(k.time, askTime))
	defer cancel()
	res, err := c.send(inner, k)
	if err != nil {
		return 0, c.lost(ctx, k, err)
	}
	defer res.Body.Close()
	if res.StatusCode/100 != 2 {
		return res.StatusCode, fault(k, res)
	}
	if into == nil {
		return res.StatusCode, nil
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, cmp.Or(k.limit, answerLimit))).Decode(into); err != nil {
		return res.StatusCode, c.lost(ctx, k, fmt.Errorf("read its answer: %w", err))
	}
	return res.StatusCode, nil
}

func (c *Client) send(ctx context.Context, k call) (*http.Response, error) {
	body, kind, err := encode(k.body)
	if err != nil {
		return nil, err
	}
	req, err := retryablehttp.NewRequestWithContext(ctx, k.method, c.address(k), body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", cmp.Or(k.accept, "application/json"))
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	if !k.token.Empty() {
		req.Header.Set("Authorization", "token "+k.token.Reveal())
	}
	if k.careful {
		return c.careful.Do(req)
	}
	return c.again.Do(req)
}

func (c *Client) address(k call) string {
	address := cmp.Or(k.url, c.api+k.path)
	if len(k.query) > 0 {
		address += "?" + k.query.Encode()
	}
	return address
}

// encode returns a body that can be sent again, and its content type.
func encode(body any) (any, string, error) {
	switch b := body.(type) {
	case nil:
		return nil, "", nil
	case url.Values:
		return []byte(b.Encode()), "application/x-www-form-urlencoded", nil
	default:
		j, err := json.Marshal(b)
		return j, "application/json", err
	}
}

// lost is the error of a Hub that gave no usable answer. The cause, with the Hub's address in it, is for the log.
func (c *Client) lost(ctx context.Context, k call, err error) error {
	if ctx.Err() != nil {
		return &errs.Error{
			Kind: errs.Unavailable, Message: k.what + ": the Hub has not answered in time", Err: ctx.Err(),
		}
	}
	return &errs.Error{
		Kind: errs.Unavailable, Message: k.what + ": the Hub does not answer", Remedy: "try again in a moment",
		Err: fmt.Errorf("ask %s: %w", c.api, err),
	}
}

// fault makes the error of an answer that is none of the 200s.
func fault(k call, res *http.Response) error {
	said := reason(res)
	switch res.StatusCode {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return errs.New(errs.Invalid, "%s: the Hub says: %s", k.what, said)
	case http.StatusUnauthorized:
		return errs.New(errs.Unauthorized, "%s: the Hub does not know the token", k.what)
	case http.StatusForbidden:
		return errs.New(errs.Forbidden, "%s: the Hub refuses: %s", k.what, said).With(grant(k.scope))
	case http.StatusNotFound:
		return errs.New(errs.NotFound, "%s: the Hub does not know it: %s", k.what, said)
	case http.StatusMethodNotAllowed:
		return errs.New(errs.Missing, "%s: this Hub cannot do it", k.what).With("it needs a newer JupyterHub")
	case http.StatusConflict:
		return errs.New(errs.Conflict, "%s: the Hub says: %s", k.what, said)
	case http.StatusTooManyRequests:
		return errs.New(errs.NoCapacity, "%s: the Hub takes no more now: %s", k.what, said)
	default:
		return errs.New(errs.Unavailable, "%s: the Hub answers %d: %s", k.what, res.StatusCode, said)
	}
}

func grant(scope string) string {
	if scope == "" {
		return "check the token"
	}
	return "the token is unknown to the Hub, or lacks the scope " + scope + ", which the Hub's load_roles grants"
}

// reasonLimit bounds what an error repeats of the Hub's words.
const reasonLimit = 400

// reason returns the Hub's words for an error, on one line.
func reason(res *http.Response) string {
	b, _ := io.ReadAll(io.LimitReader(res.Body, 16<<10))
	var said struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(b, &said) != nil || said.Message == "" {
		return http.StatusText(res.StatusCode)
	}
	words := strings.Join(strings.Fields(said.Message), " ")
	if len(words) > reasonLimit {
		words = strings.ToValidUTF8(words[:reasonLimit], "") + "…"
	}
	return words
}
