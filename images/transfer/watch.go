package transfer

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// errSilent says that a peer moved no byte for too long.
var errSilent = errors.New("nothing has moved for too long")

// watchful is a transport that gives up on a silent peer: one that neither takes what is sent, nor answers, nor goes on
// with its answer.
type watchful struct {
	next    http.RoundTripper
	silence time.Duration
}

// RoundTrip carries out one request.
func (w watchful) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	timer := time.AfterFunc(w.silence, func() { cancel(errSilent) })
	out := r.WithContext(ctx)
	if r.Body != nil {
		out.Body = &sent{r.Body, func() { timer.Reset(w.silence) }}
	}
	resp, err := w.next.RoundTrip(out)
	timer.Stop()
	if err != nil {
		err = because(ctx, err)
		cancel(nil)
		return nil, err
	}
	why := func(err error) error { return because(ctx, err) }
	resp.Body = &received{resp.Body, why, cancel, timer, w.silence}
	return resp, nil
}

// because returns the reason for which a request was given up.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errSilent) {
		return cause
	}
	return err
}

// sent is a body on its way out: a read of it means that what was read before has been taken.
type sent struct {
	io.ReadCloser
	alive func()
}

func (s *sent) Read(p []byte) (int, error) {
	s.alive()
	return s.ReadCloser.Read(p)
}

// received is an answer's body. It is silent only while somebody waits for it.
type received struct {
	io.ReadCloser
	why     func(error) error // the reason for an error of a read: io.Reader has no context that could tell
	cancel  context.CancelCauseFunc
	timer   *time.Timer
	silence time.Duration
}

func (b *received) Read(p []byte) (int, error) {
	b.timer.Reset(b.silence)
	n, err := b.ReadCloser.Read(p)
	b.timer.Stop()
	if err != nil && err != io.EOF {
		err = b.why(err)
	}
	return n, err
}

func (b *received) Close() error {
	b.timer.Stop()
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}
