package tunnel

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"

	"slipway/internal/clock"
	"slipway/internal/errs"
)

// link is the place where one workload's agent connects, and its live connection when there is one.
type link struct {
	id       string
	path     string
	uid      int
	socket   *net.UnixListener // nil: the agent comes from another host
	visitors *visitors         // nil: it comes through the socket
	owner    *Links
	ctx      context.Context // ends when the link is closed
	cancel   context.CancelFunc

	mu   sync.Mutex
	live *mux
	up   chan struct{} // closed while live is not nil

	telling sync.Mutex // one call of changed at a time, in order
	told    bool
}

// wait waits until the agent is connected.
func (k *link) wait(ctx context.Context) error {
	select {
	case <-k.whenUp():
		return nil
	case <-k.ctx.Done():
		return errs.New(errs.Unavailable, "the link of %s was closed", k.id)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// listen accepts the agent until ctx ends. Connections are taken at a bounded pace and greeted one at a time: a
// workload that connects in a loop gets no further than that.
func (k *link) listen(ctx context.Context) {
	var serving sync.WaitGroup
	defer serving.Wait()
	stop := context.AfterFunc(ctx, func() { _ = k.socket.Close() })
	defer stop()
	for {
		c, err := k.socket.AcceptUnix()
		if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
			if c != nil {
				_ = c.Close()
			}
			return
		}
		if err != nil {
			k.owner.log.Warn("accept the agent's connection", "workload", k.id, "error", err)
		} else if m := k.welcome(ctx, c); m != nil {
			serving.Go(func() { k.serve(ctx, m) })
		}
		if !clock.Sleep(ctx, pace) {
			return
		}
	}
}

// welcome checks who connected and greets it; nil when it is not a sound agent.
func (k *link) welcome(ctx context.Context, c *net.UnixConn) *mux {
	log := k.owner.log.With("workload", k.id)
	uid, err := peerUID(c)
	if err == nil && uid != k.uid && uid != 0 {
		log.Warn("connection refused: it is another user's", "uid", uid, "want", k.uid)
		_ = c.Close()
		return nil
	}
	if err != nil {
		log.Info("connection dropped: who connects is not known", "error", err)
		_ = c.Close()
		return nil
	}
	return k.meet(ctx, c, log)
}

// meet greets a connection; nil when nobody answers as an agent does.
func (k *link) meet(ctx context.Context, c net.Conn, log *slog.Logger) *mux {
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	own, err := greetAgent(ctx, c)
	var m *mux
	if err == nil {
		m, err = newMux(c, k.id, false, k.owner.log, newUnread(k.owner.unread, k.owner.user(k.id)), k.owner.deliver)
	}
	if err != nil {
		log.Info("connection dropped: no sound agent", "error", err)
		_ = c.Close()
		return nil
	}
	m.sockets = own
	return m
}

// shut lets nobody in any more.
func (k *link) shut() {
	if k.socket != nil {
		_ = k.socket.Close()
	}
}

// serve makes m the link's connection, in place of an older one, until it ends.
func (k *link) serve(ctx context.Context, m *mux) {
	k.mu.Lock()
	old := k.live
	if old == nil {
		close(k.up)
	}
	k.live = m
	k.mu.Unlock()
	if old != nil {
		old.close()
	}
	k.tell(true)
	m.serve(ctx)
	k.mu.Lock()
	if k.live == m {
		k.live = nil
		k.up = make(chan struct{})
	}
	k.mu.Unlock()
	k.tell(false)
}

// tell reports the link's state as it is now. A connection that was replaced says nothing when it ends.
func (k *link) tell(fresh bool) {
	k.telling.Lock()
	defer k.telling.Unlock()
	up := k.current() != nil
	if up == k.told && !(up && fresh) {
		return
	}
	k.told = up
	k.owner.changed(k.id, up)
}

func (k *link) current() *mux {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.live
}

func (k *link) whenUp() <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.up
}
