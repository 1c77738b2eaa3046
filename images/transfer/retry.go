package transfer

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"slipway/images/oci"
	"slipway/internal/backoff"
	"slipway/internal/errs"
)

const (
	firstWait   = 500 * time.Millisecond
	longestWait = 30 * time.Second
	longestAsk  = 5 * time.Minute // of a registry that tells when to come again
	maxProblem  = 16 << 10
	worthwhile  = 64 << 10 // bytes of progress that renew patience: a byte an attempt would take for ever
)

// failure is an attempt that came to nothing.
type failure struct {
	what   string        // was attempted on which thing
	status int           // of the answer; 0: there was none
	code   string        // of the registry's error
	after  time.Duration // that the registry asks to wait; negative: it does not say
	err    error
}

func (f *failure) Error() string { return f.what + ": " + f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// passing says whether another attempt can succeed.
func (f *failure) passing() bool {
	switch f.status {
	case 0, http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return f.after <= longestAsk
	}
	return false
}

// kind joins what a registry said to what its receiver can do about it.
func (f *failure) kind() errs.Kind {
	switch f.status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return errs.Forbidden
	case http.StatusNotFound:
		return errs.NotFound
	case http.StatusRequestEntityTooLarge, http.StatusInsufficientStorage:
		return errs.OverQuota
	case 0, http.StatusTooManyRequests:
		return errs.Unavailable
	}
	if f.status >= 500 {
		return errs.Unavailable
	}
	return errs.Invalid
}

// broken makes a failure of a request that got no answer, or of what oras-go made of one.
func broken(what string, err error) error {
	if e, ok := errors.AsType[*errcode.ErrorResponse](err); ok {
		return &failure{what: what, status: e.StatusCode, after: -1, err: answered(e)}
	}
	// alone: what Go has put around it names the address once more
	if e, known := errors.AsType[*errs.Error](err); known {
		return fmt.Errorf("%s: %w", what, e)
	}
	if errors.Is(err, auth.ErrBasicCredentialNotFound) {
		return errs.New(errs.Forbidden, "%s: the registry wants to know who is there", what).
			With("log in to that registry")
	}
	if _, sent := errors.AsType[*url.Error](err); !sent {
		return errs.New(errs.Invalid, "%s: %w", what, plain(err))
	}
	if _, stranger := errors.AsType[*tls.CertificateVerificationError](err); stranger {
		return errs.New(errs.Unavailable, "%s: %w", what, plain(err)).
			With("check the address; an authority of the registry's own is made known to the service by its administrator, in SSL_CERT_FILE")
	}
	if e, unnamed := errors.AsType[*net.DNSError](err); unnamed && e.IsNotFound {
		return errs.New(errs.Unavailable, "%s: %w", what, plain(err)).With("check the registry's name")
	}
	if speaksPlain(err) {
		return errs.New(errs.Unavailable, "%s: %w", what, plain(err)).With("name a registry that speaks HTTPS")
	}
	return cut(what, err)
}

// cut makes a failure of a connection that broke.
func cut(what string, err error) error { return &failure{what: what, after: -1, err: plain(err)} }

// refused makes a failure of an answer.
func refused(what string, resp *http.Response) error {
	f := &failure{what: what, status: resp.StatusCode, after: retryAfter(resp.Header.Get("Retry-After"), time.Now())}
	data, _ := io.ReadAll(io.LimitReader(resp.Body, maxProblem)) // what it says is a help, no more
	var said struct {
		Errors []struct{ Code, Message string }
	}
	var message string
	if err := json.Unmarshal(data, &said); err == nil && len(said.Errors) > 0 {
		f.code, message = said.Errors[0].Code, said.Errors[0].Message
	}
	f.err = answer(resp.Request.URL.Host, resp.StatusCode, f.code, message)
	return f
}

// retryAfter reads the header of that name: seconds or a date.
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(text); err == nil && seconds >= 0 {
		return time.Duration(min(seconds, 1<<30)) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now))
	}
	return -1
}

// patience counts failures in a row.
type patience struct {
	failed int
	best   int64 // farthest point that was reached
}

// again waits before the next attempt, or gives the error that ends the operation. Progress is how far the operation
// has come.
func (c *Client) again(ctx context.Context, p *patience, err error, progress int64) error {
	f, ok := errors.AsType[*failure](err)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !ok {
		return err
	}
	if progress >= p.best+worthwhile {
		p.best, p.failed = progress, 0
	}
	p.failed++
	if !f.passing() || p.failed >= c.cfg.Attempts {
		return f.final(p.failed)
	}
	d := f.after
	if d < 0 {
		d = backoff.Delay(firstWait, longestWait, p.failed, rand.Float64())
	}
	c.cfg.Logger.Info("a registry is asked again", "after", d, "attempt", p.failed, "error", err)
	return c.wait(ctx, d)
}

// final is what the caller gets to see.
func (f *failure) final(attempts int) error {
	e := errs.New(f.kind(), "%w", f)
	switch {
	case f.kind() == errs.Forbidden:
		return e.With("log in to that registry again, or ask for the right to this repository")
	case f.passing():
		return e.With(fmt.Sprintf(
			"it was tried %d times in a row; try again later; what is complete is not sent again", attempts,
		))
	case f.after > longestAsk:
		return e.With(fmt.Sprintf("the registry asks to come again in %s", f.after))
	}
	return e
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// persist repeats an operation that is whole in itself.
func (c *Client) persist(ctx context.Context, op func() error) error {
	var p patience
	for {
		err := op()
		if err == nil {
			return nil
		}
		if err = c.again(ctx, &p, err, 0); err != nil {
			return err
		}
	}
}

// query is one request to a registry.
type query struct {
	what   string // for errors
	method string
	url    string
	header map[string]string
	size   int64
	body   func() io.Reader // called anew for each time that the request is sent; nil: none
	want   []int            // statuses
}

// do sends a request with the credential that the registry asks for. The answer has one of the statuses that are
// wanted.
func (p *place) do(ctx context.Context, q query) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, q.method, q.url, nil)
	if err != nil {
		return nil, errs.New(errs.Invalid, "%s: %w", q.what, err)
	}
	r.Header.Set("Accept-Encoding", "identity") // ranges and digests are of the content itself
	for name, value := range q.header {
		r.Header.Set(name, value)
	}
	if q.body != nil {
		r.ContentLength = q.size
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(q.body()), nil }
		r.Body, _ = r.GetBody()
	}
	resp, err := p.auth.Do(r)
	if err != nil {
		return nil, broken(q.what, err)
	}
	if !slices.Contains(q.want, resp.StatusCode) {
		defer resp.Body.Close()
		return nil, refused(q.what, resp)
	}
	return resp, nil
}

// has asks whether the repository has a blob.
func (p *place) has(ctx context.Context, d oci.Descriptor) (found bool, err error) {
	q := query{
		what: fmt.Sprintf("look for %s in %s/%s", d.Digest, p.ref.Host, p.ref.Repository), method: http.MethodHead,
		url:  p.url("blobs", d.Digest.String()),
		want: []int{http.StatusOK, http.StatusNotFound},
	}
	err = p.persist(ctx, func() error {
		resp, err := p.do(ctx, q)
		if err != nil {
			return err
		}
		found = resp.StatusCode == http.StatusOK && (resp.ContentLength < 0 || resp.ContentLength == d.Size)
		return resp.Body.Close()
	})
	return found, err
}
