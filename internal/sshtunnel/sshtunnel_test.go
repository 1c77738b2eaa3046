package sshtunnel

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway/internal/testenv"
)

// actor is an agent whose channels do what their kinds say.
type actor struct {
	t     *testing.T
	left  chan string
	heard chan bool  // a deaf channel has ended
	asked chan *Peer // has made a request
}

func (a *actor) Request(_ context.Context, p *Peer, kind string, payload []byte) (bool, []byte) {
	select {
	case a.asked <- p:
	default:
	}
	return kind == "echo", payload
}

func (a *actor) Left(p *Peer) { a.left <- p.User }

func (a *actor) Channel(ctx context.Context, p *Peer, i *Incoming) {
	if i.Kind == "no" {
		_ = i.Refuse(1, "not "+string(i.Extra))
		return
	}
	if i.Kind == "silent" {
		return
	}
	c, err := i.Accept(ctx)
	if err != nil {
		return
	}
	defer c.Close()
	switch i.Kind {
	case "echo":
		_, _ = io.Copy(c, c)
		_, _ = c.Stderr().Write([]byte("done"))
		_, _ = c.Send(ctx, "exit-status", false, []byte{0, 0, 0, 7})
	case "deaf": // answers requests and reads no data
		for r := range c.Requests() {
			_ = r.Reply(r.Kind == "yes")
		}
		a.heard <- true
	case "brief": // answers, and is over
		for r := range c.Requests() {
			_ = r.Reply(true)
			return
		}
	case "cut":
		_, _ = c.Write([]byte("half"))
		c.Cut()
	case "back":
		back, err := p.Open(ctx, "towards", []byte("you"))
		if err != nil {
			_, _ = c.Write([]byte(err.Error()))
			return
		}
		_, _ = io.Copy(c, back)
		_ = back.Close()
	}
}

// listening serves streams, and gives a way to open them. stop waits until all are served.
func listening(t *testing.T, serve func(net.Conn)) (dial func(context.Context) (net.Conn, error), stop func()) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer c.Close()
				serve(c)
			})
		}
	})
	return func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", l.Addr().String())
	}, func() { _ = l.Close(); serving.Wait() }
}

// link returns a way to the streams of an agent. cut ends all that there are.
func link(t *testing.T) (dial func(context.Context) (net.Conn, error), a *actor, cut func()) {
	t.Helper()
	a = &actor{t: t, left: make(chan string, 1), heard: make(chan bool, 8), asked: make(chan *Peer, 8)}
	s := NewServer(a, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	dial, stop := listening(t, func(c net.Conn) { s.Serve(ctx, c) })
	t.Cleanup(func() { cancel(); stop() })
	return dial, a, cancel
}

func connect(t *testing.T) (*Conn, *actor, func()) {
	t.Helper()
	dial, a, cut := link(t)
	c, err := Dial(t.Context(), dial, Login{ID: rand.Text(), User: "alice"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, a, cut
}

func open(t *testing.T, c *Conn, kind string) *Channel {
	t.Helper()
	ch, err := c.Open(t.Context(), kind, nil)
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

func TestEcho(t *testing.T) {
	c, a, _ := connect(t)
	ch := open(t, c, "echo")
	want := make([]byte, 3<<20+17)
	_, _ = rand.Read(want)
	go func() {
		_, _ = io.Copy(ch, bytes.NewReader(want))
		_ = ch.CloseWrite()
	}()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(ch, got); err != nil || !bytes.Equal(got, want) {
		t.Error("what came back is not what was sent:", err)
	}
	if b, err := io.ReadAll(ch.Stderr()); string(b) != "done" || err != nil {
		t.Errorf("second stream: %q, %v", b, err)
	}
	r := <-ch.Requests()
	if r == nil || r.Kind != "exit-status" || r.Want || !bytes.Equal(r.Payload, []byte{0, 0, 0, 7}) {
		t.Errorf("request: %+v", r)
	}
	testenv.Receive(t, "the channel ends", ch.Done())
	if _, err := ch.Read(got); err != io.EOF || ch.Err() != nil {
		t.Errorf("at the end: %v, %v", err, ch.Err())
	}
	if _, err := ch.Write([]byte("x")); err == nil {
		t.Error("an ended channel takes data")
	}
	if came, went := ch.Moved(); came != int64(len(want))+4 || went != int64(len(want)) {
		t.Errorf("moved %d, %d", came, went)
	}
	c.Close()
	if user := testenv.Receive(t, "the agent hears that she has left", a.left); user != "alice" {
		t.Errorf("%q has left", user)
	}
}

// slow is a place for data which is not ready at first.
type slow struct {
	ready <-chan struct{}
	bytes.Buffer
}

func (s *slow) Write(b []byte) (int, error) {
	<-s.ready
	return s.Buffer.Write(b)
}

// What is passed on is whole and in order: what came before there was a place for it, and what comes while that is not
// ready.
func TestPass(t *testing.T) {
	c, _, _ := connect(t)
	ch := open(t, c, "echo")
	want := make([]byte, 3<<20+17)
	_, _ = rand.Read(want)
	go func() {
		_, _ = io.Copy(ch, bytes.NewReader(want))
		_ = ch.CloseWrite()
	}()
	ready := make(chan struct{})
	got, said := &slow{ready: ready}, &bytes.Buffer{}
	go func() {
		testenv.Within(testenv.Hang, func() bool { came, _ := ch.Moved(); return came > 0 })
		close(ready)
	}()
	if err := ch.Pass(got, said); err != nil || !bytes.Equal(got.Bytes(), want) || said.String() != "done" {
		t.Errorf("%d bytes of %d, %q, %v", got.Len(), len(want), said, err)
	}
}

type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// Where nobody takes the data any more what comes behind it still arrives, and what is cut is no end.
func TestPassEnds(t *testing.T) {
	c, _, cut := connect(t)
	ch := open(t, c, "echo")
	_, _ = ch.Write([]byte("lost"))
	_ = ch.CloseWrite()
	if err := ch.Pass(closed{}, io.Discard); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("nobody takes it: %v", err)
	}
	if r := <-ch.Requests(); r == nil || r.Kind != "exit-status" {
		t.Errorf("request: %+v", r)
	}
	if err := open(t, c, "cut").Pass(io.Discard, io.Discard); !errors.Is(err, ErrCut) {
		t.Errorf("cut by the agent: %v", err)
	}
	ch = open(t, c, "echo")
	cut()
	if err := ch.Pass(io.Discard, io.Discard); !errors.Is(err, ErrCut) {
		t.Errorf("the agent has gone: %v", err)
	}
}

// An answer counts also where the channel has ended right behind it, as that of a command that does next to nothing.
func TestBriefAnswer(t *testing.T) {
	c, _, _ := connect(t)
	for range 200 {
		ch := open(t, c, "brief")
		if ok, err := ch.Send(t.Context(), "exec", true, nil); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
}

// What a channel's reader leaves lying holds up neither requests nor their answers.
func TestRequestsPassData(t *testing.T) {
	c, _, _ := connect(t)
	ch := open(t, c, "deaf")
	if _, err := ch.Write(make([]byte, queueLimit*frameSize/2)); err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[string]bool{"yes": true, "no": false} {
		if ok, err := ch.Send(t.Context(), kind, true, nil); ok != want || err != nil {
			t.Errorf("%s: %v, %v", kind, ok, err)
		}
	}
	if err := ch.Close(); err != nil {
		t.Error(err)
	}
}

func TestRefused(t *testing.T) {
	c, _, _ := connect(t)
	_, err := c.Open(t.Context(), "no", []byte("now"))
	if r, ok := errors.AsType[*Refusal](err); !ok || *r != (Refusal{1, "not now"}) {
		t.Errorf("%v", err)
	}
	_, err = c.Open(t.Context(), "silent", nil)
	if r, ok := errors.AsType[*Refusal](err); !ok || r.Reason != connectFailed {
		t.Errorf("%v", err)
	}
	ok, answer, err := c.Request(t.Context(), "echo", true, []byte("x"))
	if !ok || string(answer) != "x" || err != nil {
		t.Errorf("%v %q %v", ok, answer, err)
	}
	if ok, _, err := c.Request(t.Context(), "other", true, nil); ok || err != nil {
		t.Errorf("%v %v", ok, err)
	}
}

func TestTowardsTheClient(t *testing.T) {
	c, _, _ := connect(t)
	for _, accept := range []bool{true, false} {
		ch := open(t, c, "back")
		i := <-c.Opened()
		if i.Kind != "towards" || string(i.Extra) != "you" {
			t.Fatalf("asked for %+v", i)
		}
		want := "no"
		if accept {
			want = "hello"
			back, err := i.Accept(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			_, _ = back.Write([]byte(want))
			_ = back.Close()
		} else if err := i.Refuse(1, want); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(ch); string(b) != want || err != nil {
			t.Errorf("%q, %v", b, err)
		}
	}
}

// A stream that is cut is no end of file.
func TestCut(t *testing.T) {
	c, a, cut := connect(t)
	if b, err := io.ReadAll(open(t, c, "cut")); string(b) != "half" || !errors.Is(err, ErrCut) {
		t.Errorf("%q, %v", b, err)
	}
	ch := open(t, c, "echo")
	cut()
	if _, err := io.ReadAll(ch); !errors.Is(err, ErrCut) {
		t.Errorf("the agent has gone: %v", err)
	}
	testenv.Receive(t, "the link ends", c.Done())
	if _, _, err := c.Request(t.Context(), "echo", true, nil); err == nil {
		t.Error("a request to nobody is answered")
	}
	testenv.Receive(t, "the agent hears that she has left", a.left)
}

// stalls waits until nothing of a channel's goes any more while the agent answers.
func stalls(t *testing.T, c *Conn, ch *Channel) {
	t.Helper()
	for still, before := 0, int64(-1); still < 100; still++ {
		if _, _, err := c.Request(t.Context(), "echo", true, nil); err != nil {
			t.Fatal(err)
		}
		if _, went := ch.Moved(); went != before {
			before, still = went, 0
		}
	}
}

// Who stops reading holds up herself, and can still leave.
func TestStalled(t *testing.T) {
	c, _, _ := connect(t)
	ch := open(t, c, "deaf")
	wrote := make(chan error, 1)
	go func() {
		_, err := ch.Write(make([]byte, 64<<20))
		wrote <- err
	}()
	stalls(t, c, ch)
	other := open(t, c, "echo")
	_, _ = other.Write([]byte("x"))
	_ = other.CloseWrite()
	if b, err := io.ReadAll(other); string(b) != "x" || err != nil {
		t.Errorf("beside it: %q, %v", b, err)
	}
	c.Close()
	if err := testenv.Receive(t, "the write ends", wrote); err == nil {
		t.Error("the write was not ended")
	}
}

// A channel whose other end reads nothing can be closed, and the agent hears of it.
func TestCloseOfStalled(t *testing.T) {
	c, a, _ := connect(t)
	ch := open(t, c, "deaf")
	ch.patience = 10 * time.Millisecond
	wrote := make(chan error, 1)
	go func() {
		_, err := ch.Write(make([]byte, 64<<20))
		wrote <- err
	}()
	stalls(t, c, ch)
	_ = ch.Close()
	if err := testenv.Receive(t, "the write ends", wrote); err == nil {
		t.Error("the write was not ended")
	}
	testenv.Receive(t, "the agent hears that the channel was cut", a.heard)
}

// However small the frames are, what waits takes no more room than its bytes.
func TestSmallFrames(t *testing.T) {
	q := newQueue()
	for range 1000 {
		if err := q.put(bytes.NewReader([]byte("x\n")), 2); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(q.chunks); n != 1 {
		t.Errorf("%d buffers", n)
	}
	q.end(io.EOF)
	b := make([]byte, 3)
	if n, err := q.Read(b); n != 3 || err != nil {
		t.Error(n, err)
	}
	if rest, err := io.ReadAll(q); len(rest) != 1997 || err != nil || string(b)+string(rest) != strings.Repeat("x\n", 1000) {
		t.Errorf("%d bytes, %v", len(rest), err)
	}
}

func FuzzServe(f *testing.F) {
	f.Add([]byte("L\x00\x00\x00\x05hello"))
	f.Add([]byte("O\x00\x00\x00\x0c\x00\x00\x00\x01a\x00\x00\x00\x01ebc"))
	f.Add([]byte("A\xff\xff\xff\xff"))
	f.Fuzz(func(_ *testing.T, b []byte) {
		s := NewServer(&actor{left: make(chan string, 1)}, slog.New(slog.DiscardHandler))
		here, there := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, here) }()
		go func() {
			_, _ = here.Write(b)
			_ = here.Close()
		}()
		s.Serve(context.Background(), there)
	})
}

func BenchmarkBulk(b *testing.B) {
	t := &testing.T{}
	l, err := net.Listen("unix", filepath.Join(b.TempDir(), "s"))
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	s := NewServer(&actor{t: t, left: make(chan string, 1)}, slog.New(slog.DiscardHandler))
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go s.Serve(b.Context(), c)
		}
	}()
	c, err := Dial(b.Context(), func(context.Context) (net.Conn, error) { return net.Dial("unix", l.Addr().String()) }, Login{ID: "1"}, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	ch, err := c.Open(b.Context(), "echo", nil)
	if err != nil {
		b.Fatal(err)
	}
	data := make([]byte, 32<<10)
	b.SetBytes(int64(len(data)))
	go func() {
		for range b.N {
			_, _ = ch.Write(data)
		}
		_ = ch.CloseWrite()
	}()
	if _, err := io.Copy(io.Discard, ch); err != nil {
		b.Fatal(err)
	}
}
