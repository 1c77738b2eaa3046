package tunnel

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"
)

const (
	firstPause = 20 * time.Millisecond
	lastPause  = time.Second
	dialTime   = 10 * time.Second
)

// UplinkConfig is what an Uplink needs.
type UplinkConfig struct {
	Dial func(context.Context) (net.Conn, error)
	// Doors take the streams that the service opens. A handler owns its stream and closes it; it may return before. ctx ends
	// with the link.
	Doors  map[Door]func(ctx context.Context, c net.Conn)
	Logger *slog.Logger
}

// Uplink is the agent's side: one link to the service, dialled again for ever.
type Uplink struct {
	cfg UplinkConfig

	mu   sync.Mutex
	live *mux
	up   chan struct{} // closed while live is not nil
}

// NewUplink makes an Uplink. Run must be called.
func NewUplink(cfg UplinkConfig) *Uplink { return &Uplink{cfg: cfg, up: make(chan struct{})} }

// Run keeps the link up until ctx ends.
func (u *Uplink) Run(ctx context.Context) error {
	pause := firstPause
	for {
		c, err := u.connect(ctx)
		if err == nil {
			pause = firstPause
			u.serve(ctx, c)
			u.cfg.Logger.Info("the link to the service went down")
		} else {
			u.cfg.Logger.Debug("no link to the service", "error", err)
		}
		if !sleep(ctx, pause) {
			return ctx.Err()
		}
		pause = min(2*pause, lastPause)
	}
}

// Open opens a stream to the service. While the link is down it waits until ctx ends: a service that restarts is soon back.
func (u *Uplink) Open(ctx context.Context, door Door) (net.Conn, error) {
	for {
		u.mu.Lock()
		m, up := u.live, u.up
		u.mu.Unlock()
		if m != nil {
			c, err := m.open(ctx, door)
			if err == nil {
				return c, nil
			}
			if !m.session.IsClosed() || !sleep(ctx, firstPause) {
				return nil, err
			}
			continue
		}
		select {
		case <-up:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (u *Uplink) connect(ctx context.Context) (net.Conn, error) {
	dial, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	c, err := u.cfg.Dial(dial)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	if err := greet(c); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

func (u *Uplink) serve(ctx context.Context, c net.Conn) {
	m, err := newMux(c, "", true, u.cfg.Logger, u.admit)
	if err != nil {
		_ = c.Close()
		return
	}
	u.set(m)
	m.serve(ctx)
	u.set(nil)
}

func (u *Uplink) admit(ctx context.Context, d Door, c *Conn) {
	if h := u.cfg.Doors[d]; h != nil {
		h(ctx, c)
		return
	}
	_ = c.Close()
}

func (u *Uplink) set(m *mux) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if m != nil {
		close(u.up)
	} else {
		u.up = make(chan struct{})
	}
	u.live = m
}
