package zmtp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// pair is two sockets that are connected.
func pair(t *testing.T, kinds [2]string, identity string) (one, other *Socket) {
	a, b := net.Pipe()
	done := make(chan error, 1)
	go func() {
		var err error
		other, err = Open(t.Context(), b, kinds[1], nil)
		done <- err
	}()
	// A pipe holds nothing: each side has to read while the other greets.
	one, err := Open(t.Context(), &buffered{Conn: a}, kinds[0], []byte(identity))
	if err = errors.Join(err, <-done); err != nil {
		t.Fatal(err)
	}
	return one, other
}

// buffered does not wait for its first write.
type buffered struct {
	net.Conn
	first bool
}

func (b *buffered) Write(p []byte) (int, error) {
	if !b.first {
		b.first = true
		go func() { _, _ = b.Conn.Write(p) }()
		return len(p), nil
	}
	return b.Conn.Write(p)
}

func TestPeersKnowEachOther(t *testing.T) {
	one, other := pair(t, [2]string{"DEALER", "ROUTER"}, "who")
	if got := other.Peer(); got != "who" {
		t.Errorf("%q", got)
	}
	go one.Write()
	want := [][]byte{{}, []byte("short"), bytes.Repeat([]byte("x"), 70000)}
	if err := one.Send(want); err != nil {
		t.Fatal(err)
	}
	got, err := other.Receive()
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff[:min(len(diff), 200)])
	}
}

func TestSendSoonWaitsForRoom(t *testing.T) {
	one, other := pair(t, [2]string{"PUB", "SUB"}, "")
	for range mostQueued {
		if err := one.Send([][]byte{{1}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := one.SendSoon(t.Context(), [][]byte{{2}}, time.Millisecond); !errors.Is(err, errFull) {
		t.Errorf("a full line: %v", err)
	}
	go one.Write()
	sent := make(chan error, 1)
	go func() { sent <- one.SendSoon(context.Background(), [][]byte{{2}}, time.Minute) }()
	for range mostQueued + 1 {
		if _, err := other.Receive(); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
	one.Close()
	if err := one.SendSoon(t.Context(), [][]byte{{3}}, time.Minute); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// conn is what a peer sends.
type conn struct {
	net.Conn
	in *bytes.Reader
}

func (c conn) Read(b []byte) (int, error)       { return c.in.Read(b) }
func (c conn) Write(b []byte) (int, error)      { return len(b), nil }
func (c conn) Close() error                     { return nil }
func (c conn) SetDeadline(time.Time) error      { return nil }
func greeting(kind, identity string) (b []byte) { return hello(kind, []byte(identity)) }

// What is too large is left out, in one frame or in several, and what follows is not.
func TestTooLarge(t *testing.T) {
	huge := func(flags byte, size int64) io.Reader {
		return io.MultiReader(bytes.NewReader(binary.BigEndian.AppendUint64([]byte{flags | flagLong}, uint64(size))), io.LimitReader(zeros{}, size))
	}
	small := appendFrames(nil, [][]byte{[]byte("a"), []byte("b")})
	s := &Socket{in: bufio.NewReader(io.MultiReader(
		huge(0, Limit+1), bytes.NewReader(small),
		huge(flagMore, Limit/2), huge(flagMore, Limit/2), huge(0, 1), bytes.NewReader(small),
		bytes.NewReader(appendFrames(nil, make([][]byte, mostFrames+2))), bytes.NewReader(small),
	))}
	for i := range 3 {
		if _, err := s.Receive(); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%d: %v", i, err)
		}
		if got, err := s.Receive(); err != nil || len(got) != 2 || string(got[1]) != "b" {
			t.Errorf("%d: then %q, %v", i, got, err)
		}
	}
	if _, err := s.Receive(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func FuzzPeer(f *testing.F) {
	f.Add(append(greeting("DEALER", "a"), appendFrames(nil, [][]byte{[]byte("a"), {}})...))
	f.Add(append(greeting("SUB", ""), 0, 1, 1))
	f.Add(greeting("REQ", "")[:70])
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := Open(t.Context(), conn{in: bytes.NewReader(b)}, "ROUTER", nil)
		if err != nil {
			return
		}
		defer s.Close()
		if len(s.Peer()) > longestIdentity {
			t.Error("a long identity")
		}
		for {
			frames, err := s.Receive()
			if err != nil {
				return
			}
			again := &Socket{in: bufio.NewReader(bytes.NewReader(appendFrames(nil, frames)))}
			if got, err := again.Receive(); err != nil || !cmp.Equal(got, frames) {
				t.Errorf("%v: %q", err, got)
			}
		}
	})
}
