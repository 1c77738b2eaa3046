package web

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// unsentTime is how long a body may still take to come when the request has its answer. The connection is read to the
// body's end before it serves the next request: who announces a body and never sends it would otherwise keep it open
// for ever.
const unsentTime = 5 * time.Second

// intake is a request's body that knows whether all of it has come.
type intake struct {
	io.ReadCloser
	ended atomic.Bool
	broke atomic.Bool // the client has gone before it had sent all
}

// Read notes the end, and that there will be none.
func (i *intake) Read(b []byte) (int, error) {
	n, err := i.ReadCloser.Read(b)
	switch {
	case errors.Is(err, io.EOF):
		i.ended.Store(true)
	case err != nil && !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, http.ErrBodyReadAfterClose):
		i.broke.Store(true)
	}
	return n, err
}

// newIntake puts itself in the place of the body, if there is any.
func newIntake(r *http.Request) *intake {
	i := &intake{ReadCloser: r.Body}
	if r.ContentLength == 0 || r.Body == nil {
		i.ended.Store(true)
	} else {
		r.Body = i
	}
	return i
}

// hurry gives what has not come by now its time. A session may answer before it has read all: its requests are not
// hurried.
func (a *answer) hurry() {
	if !a.trace.whole() && !a.trace.Forwarded {
		// not all connections have one
		_ = http.NewResponseController(a.ResponseWriter).SetReadDeadline(time.Now().Add(unsentTime))
	}
}
