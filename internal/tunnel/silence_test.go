package tunnel

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// deaf is a connection from which nothing comes any more once it is cut, and to which nothing goes, as of a network that drops all.
type deaf struct {
	*wire
	cut  *atomic.Bool
	done chan struct{}
	once sync.Once
}

func (d *deaf) Read(b []byte) (int, error) {
	n, err := d.wire.Read(b)
	if d.cut.Load() {
		<-d.done
		return 0, net.ErrClosed
	}
	return n, err
}

func (d *deaf) Write(b []byte) (int, error) {
	if d.cut.Load() {
		return len(b), nil
	}
	return d.wire.Write(b)
}

func (d *deaf) writeAll(pieces ...[]byte) error {
	if d.cut.Load() {
		return nil
	}
	return d.wire.writeAll(pieces...)
}

func (d *deaf) heard() bool { return !d.cut.Load() || d.wire.heard() }

func (d *deaf) Close() error {
	d.once.Do(func() { close(d.done) })
	return d.wire.Close()
}

// A link whose network was cut is another one soon after it has healed, though neither side's connection has ended. Until then the old one
// stays.
func TestSilentLink(t *testing.T) {
	a := newAfar(t, nil)
	d, tried := NewDialer(), make(chan struct{}, 1024)
	var down atomic.Bool
	var cut atomic.Pointer[atomic.Bool] // what cuts the connections that are made now: a first one may fail on a loaded machine
	cut.Store(new(atomic.Bool))
	u := NewUplink(UplinkConfig{
		Doors: map[Door]func(context.Context, net.Conn){DoorApp: echo}, Logger: slog.New(slog.DiscardHandler),
		Dial: func(ctx context.Context) (net.Conn, error) {
			if down.Load() {
				tried <- struct{}{}
				return nil, errors.New("no route to host")
			}
			c, err := d.Dial(ctx, a.uplink())
			if err != nil {
				return nil, err
			}
			return &deaf{wire: c.(*wire), cut: cut.Load(), done: make(chan struct{})}, nil
		},
	})
	u.tick = 10 * time.Millisecond
	run(t, u.Run)
	first := a.stream(t)
	down.Store(true)
	cut.Swap(new(atomic.Bool)).Store(true)
	for range 3 {
		<-tried
	}
	ended := make(chan error, 1)
	go func() { _, err := io.ReadAll(first); ended <- err }()
	select {
	case err := <-ended:
		t.Errorf("while nobody is reached the old link's streams end: %v", err)
	default:
	}
	down.Store(false)
	if err := <-ended; err == nil {
		t.Error("a stream of the old link ended as if all had been read")
	}
	roundTrip(t, a.stream(t))
}
