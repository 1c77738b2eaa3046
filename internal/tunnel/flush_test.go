package tunnel

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
)

// heldConn delivers what was written once it sees a ping, if it is to; what has not been delivered when it is closed is
// lost, as on a connection that is reset.
type heldConn struct {
	net.Conn
	deliver bool

	mu   sync.Mutex
	held bytes.Buffer
}

func (h *heldConn) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held.Write(b)
	if h.deliver && len(b) == headerSize && b[1] == typePing {
		_, _ = h.held.WriteTo(h.Conn)
	}
	return len(b), nil
}

// answerAndEnd joins a service to an agent that answers on the stream that is returned, and ends at once.
func answerAndEnd(t *testing.T, deliver bool) (stream net.Conn, ended <-chan struct{}) {
	t.Helper()
	near, far := net.Pipe()
	log := slog.New(slog.DiscardHandler)
	service, err := newMux(near, "s-x", false, log, nil, func(context.Context, Door, *Conn) {})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	opened := make(chan struct{}) // an agent that ends before the service knows that the stream is open loses the stream
	agent, err := newMux(&heldConn{Conn: far, deliver: deliver}, "", true, log, nil, func(_ context.Context, _ Door, c *Conn) {
		<-opened
		_, _ = io.WriteString(c, "the rest")
		cancel()
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { agent.serve(ctx); close(done) }()
	run(t, func(ctx context.Context) error { service.serve(ctx); return nil })
	if stream, err = service.dial(DoorApp); err != nil {
		t.Fatal(err)
	}
	close(opened)
	return stream, done
}

// What an agent has written before it ends reaches the service.
func TestLastWordsArrive(t *testing.T) {
	c, ended := answerAndEnd(t, true)
	b := make([]byte, len("the rest"))
	if _, err := io.ReadFull(c, b); string(b) != "the rest" {
		t.Errorf("%q, %v", b, err)
	}
	within(t, "the agent", func() { <-ended })
}

// An agent that ends does not wait long for a service that answers nothing.
func TestLastWordsToNobody(t *testing.T) {
	t.Parallel()
	_, ended := answerAndEnd(t, false)
	within(t, "the agent", func() { <-ended })
}
