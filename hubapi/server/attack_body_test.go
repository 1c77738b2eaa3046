package server

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener whose connections live in the test's own time.
type pipes struct {
	conns chan net.Conn
	ctx   context.Context
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.ctx.Done():
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error { return nil }

func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// unsent is how long a body may still take to come when the request has its answer.
const unsent = 5 * time.Second

// TestUnsentBodiesPinNoConnections: who announces a body and never sends it is answered, and let go, also by routes
// that take none.
func TestUnsentBodiesPinNoConnections(t *testing.T) {
	for _, tc := range []struct{ name, request string }{
		{"Outpost without a credential", "POST /services HTTP/1.1\r\n"},
		{"Outpost with a wrong one", "POST /services HTTP/1.1\r\nAuthorization: Basic eDp5\r\n"},
		{"the API without a token", "POST /api/v1/sessions HTTP/1.1\r\n"},
		{"a question with a body", "GET /healthz HTTP/1.1\r\n"},
		{"a form of nobody", "POST " + prefix + "logout HTTP/1.1\r\nAccept: text/html\r\n"},
		{"a page of nobody", "GET " + prefix + " HTTP/1.1\r\nAccept: text/html\r\n"},
		{"no session", "PUT /user/nobody/x HTTP/1.1\r\nAccept: text/html\r\n"},
		{"no route", "POST /api/v1/nothing HTTP/1.1\r\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := startPages(t, newFake(), nil)
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				s := New(h.cfg)
				mine, theirs := net.Pipe()
				l := pipes{make(chan net.Conn, 1), ctx}
				l.conns <- theirs
				done := make(chan error, 1)
				go func() { done <- s.Run(ctx, Listeners{Public: l}) }()
				began := time.Now()
				go func() { _, _ = io.WriteString(mine, tc.request+"Host: x\r\nContent-Length: 100\r\n\r\n") }()
				resp, err := http.ReadResponse(bufio.NewReader(mine), nil)
				if took := time.Since(began); err != nil || took > unsent {
					t.Errorf("answered after %v: %v", took, err)
				}
				if err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
				}
				_, _ = io.Copy(io.Discard, mine) // until the server closes it
				if took := time.Since(began); took > 2*unsent {
					t.Errorf("let go after %v", took)
				}
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
