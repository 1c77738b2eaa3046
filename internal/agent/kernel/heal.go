package kernel

import (
	"context"
	"strings"
	"time"

	"slipway/kernels/wire"
)

const healEvery = 30 * time.Second

// work is a request that the kernel works on.
type work struct {
	kind string
	at   time.Time
}

// unanswered reports whether nothing but an idle status ends a request. That is said on a channel that may drop it; a kernel that looked busy
// for ever would never be culled.
func (w work) unanswered() bool { return strings.HasPrefix(w.kind, "comm_") }

// heal looks from time to time for such requests that seem to go on, and asks the kernel something behind them: once it answers they are done.
// Others are left alone: kernels that do several things at once answer while a cell runs.
func (l *life) heal(ctx context.Context) {
	tick := time.NewTicker(l.kernel.cfg.Heal)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if ids := l.kernel.lasting(time.Now()); len(ids) > 0 && l.reached(ctx) {
			l.kernel.done(ids)
		}
	}
}

// lasting gives the requests without an answer that seem to be worked on for long.
func (k *Kernel) lasting(now time.Time) (ids []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, w := range k.busy {
		if w.unanswered() && now.Sub(w.at) >= k.cfg.Heal {
			ids = append(ids, id)
		}
	}
	return ids
}

// reached reports whether the kernel has come to what is asked now.
func (l *life) reached(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, l.kernel.cfg.Heal)
	defer cancel()
	s, err := l.connect(ctx, wire.Shell, "DEALER", []byte(wire.NewID()))
	if err != nil {
		return false
	}
	defer s.Close()
	answered := make(chan struct{})
	l.receive(s, wire.Shell, once(answered), func(wire.Message) {})
	if l.ask(s, wire.Shell, "kernel_info_request", struct{}{}) != nil {
		return false
	}
	select {
	case <-answered:
		return true
	case <-ctx.Done():
		return false
	}
}

// done says that requests are not worked on any more.
func (k *Kernel) done(ids []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, id := range ids {
		delete(k.busy, id)
	}
	k.workOrRest()
}
