package tunnel

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"slipway/internal/backoff"
	"slipway/internal/clock"
	"slipway/internal/errs"
)

const (
	firstPause   = 20 * time.Millisecond
	flapPause    = 50 * time.Millisecond
	lastPause    = time.Second
	farPause     = 2 * time.Second
	refusedPause = 30 * time.Second
	steady       = time.Second // what was up for longer is no flapping link
	dialTime     = 10 * time.Second
)

// UplinkConfig is what an Uplink needs.
type UplinkConfig struct {
	Dial func(context.Context) (net.Conn, error)
	// Doors take the streams that the service opens. A handler owns its stream and closes it; it may return before. ctx
	// ends with the link.
	Doors map[Door]func(ctx context.Context, c net.Conn)
	// Changed is told when the link comes up and when it goes down, never twice at once. May be nil.
	Changed func(up bool)
	Logger  *slog.Logger
}

// Uplink is the agent's side: one link to the service, dialled again for ever.
type Uplink struct {
	cfg  UplinkConfig
	tick time.Duration // silentTick

	mu   sync.Mutex
	live *mux
	up   chan struct{} // closed while live is not nil
}

// NewUplink makes an Uplink. Run must be called.
func NewUplink(cfg UplinkConfig) *Uplink {
	if cfg.Changed == nil {
		cfg.Changed = func(bool) {}
	}
	return &Uplink{cfg: cfg, tick: silentTick, up: make(chan struct{})}
}

// Run keeps the link up until ctx ends.
func (u *Uplink) Run(ctx context.Context) error {
	failed, told := backoff.Backoff{First: firstPause}, "nothing"
	for {
		way, err := u.connect(ctx)
		failed.Most = longest(err)
		if err != nil {
			told = u.tell(told, err)
		}
		for way != nil {
			began := time.Now()
			way = u.serve(ctx, way)
			u.cfg.Logger.Info("the link to the service went down")
			told, failed.Most = "nothing", flapPause
			if time.Since(began) > steady {
				failed.Reset()
			}
		}
		if !failed.Wait(ctx) {
			return ctx.Err()
		}
	}
}

// tell says why there is no link: once for each thing that somebody can do about it.
func (u *Uplink) tell(told string, err error) string {
	e, known := errors.AsType[*errs.Error](err)
	if !known || told == e.Remedy+e.Field {
		u.cfg.Logger.Debug("no link to the service", "error", err)
		return told
	}
	u.cfg.Logger.Warn("no link to the service", "error", err)
	return e.Remedy + e.Field
}

// longest is the longest pause after an error. Who is refused need not hurry.
func longest(err error) time.Duration {
	switch {
	case err == nil || errs.Is(err, errs.Internal):
		return lastPause
	case errs.Is(err, errs.Unavailable) || errs.Is(err, errs.OverQuota):
		return farPause
	}
	return refusedPause
}

// Open opens a stream to the service. While the link is down it waits until ctx ends: a service that restarts is soon
// back.
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
			if !m.session.IsClosed() || !clock.Sleep(ctx, firstPause) {
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

// way is a connection to the service that has been greeted.
type way struct {
	net.Conn
	given *sockets // nil: it leads to another host
}

func (u *Uplink) connect(ctx context.Context) (*way, error) {
	dial, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	c, err := u.cfg.Dial(dial)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	given, err := greetService(c)
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return &way{c, given}, nil
}

// serve has the link go this way until it ends. It gives another way if there is one already.
func (u *Uplink) serve(ctx context.Context, w *way) (next *way) {
	m, err := newMux(
		w.Conn, "", true, u.cfg.Logger, nil, func(ctx context.Context, d Door, c *Conn) { u.admit(ctx, d, c) },
	)
	if err != nil {
		_ = w.Close()
		return nil
	}
	if m.sockets = w.given; w.given != nil {
		w.given.accept = u.admit
	}
	var watching sync.WaitGroup
	live, stop := context.WithCancel(ctx)
	defer stop()
	if heard, ok := w.Conn.(hearing); ok {
		watching.Go(func() { next = u.relief(ctx, live, heard, m.close) })
	}
	u.set(m)
	u.cfg.Changed(true)
	m.serve(ctx)
	u.set(nil)
	u.cfg.Changed(false)
	stop()
	watching.Wait()
	return next
}

func (u *Uplink) admit(ctx context.Context, d Door, c net.Conn) {
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
