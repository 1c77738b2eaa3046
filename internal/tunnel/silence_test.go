package tunnel

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// deaf is a connection from which nothing comes any more once it is cut, and to which nothing goes, as of a network
// that drops all. Until then it counts as one from which something has just come.
type deaf struct {
	*wire
	cut *atomic.Bool
}

func (d *deaf) Read(b []byte) (int, error) {
	for {
		n, err := d.wire.Read(b)
		if err != nil || !d.cut.Load() {
			return n, err
		}
	}
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

func (d *deaf) heard() bool { return !d.cut.Load() }

// A link whose network was cut is another one soon after it has healed, though neither side's connection has ended.
// Until then the old one stays.
func TestSilentLink(t *testing.T) {
	came := make(chan struct{}, 16)
	a := newRemoteSite(t, func(_ string, up bool) {
		if up {
			came <- struct{}{}
		}
	})
	d, tried := NewDialer(), make(chan struct{}, 1024)
	var down, cut atomic.Bool
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
			was := &cut
			if cut.Load() {
				was = new(atomic.Bool) // the network has healed
			}
			return &deaf{wire: c.(*wire), cut: was}, nil
		},
	})
	u.tick = 10 * time.Millisecond
	run(t, u.Run)
	<-came
	first := a.stream(t)
	ping(t, first)
	down.Store(true)
	cut.Store(true)
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
	<-came
	if err := <-ended; err == nil {
		t.Error("a stream of the old link ended as if all had been read")
	}
	roundTrip(t, a.stream(t))
}
