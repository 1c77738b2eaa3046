package kernel

import (
	"context"
	"sync"
	"time"

	"slipway/kernels/wire"
)

const healEvery = 30 * time.Second

// heal looks from time to time for requests that nothing answers and that seem to go on, and asks the kernel something
// behind them: once it answers they are done. Others are left alone: kernels that do several things at once answer
// while a cell runs.
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
			l.kernel.done(ids...)
		}
	}
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
	answers := sync.OnceFunc(func() { close(answered) })
	l.receive(s, wire.Shell, func(wire.Message) { answers() })
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
