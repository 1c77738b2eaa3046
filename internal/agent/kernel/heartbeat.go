package kernel

import (
	"context"
	"net"
	"time"

	"slipway/kernels/wire"
	"slipway/kernels/zmtp"
)

const (
	beatEvery  = 10 * time.Second
	mostMissed = 3 // heartbeats in a row: the process is stopped, or has no processor
	hbDialTime = 10 * time.Second
)

// beat looks whether the process goes on, by its heartbeat, which answers also while a cell computes. One that does not
// answer is told of and left alone, as Jupyter does it: it may be stopped by a debugger, or go on later. Beats are
// counted rather than time: an agent that was stopped with its kernel has missed one.
func (l *life) beat(ctx context.Context) {
	answers := make(chan struct{}, 1)
	s := l.heartbeat(ctx, answers)
	if s == nil {
		return // a kernel that has none
	}
	defer s.Close()
	tick := time.NewTicker(l.kernel.cfg.Beat)
	defer tick.Stop()
	for missed, answered := 0, true; ; {
		if answered && s.Send([][]byte{{}, []byte("beat")}) != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		select {
		case <-answers:
			missed, answered = 0, true
		default:
			missed, answered = missed+1, false
		}
		l.kernel.hangs(missed >= mostMissed)
	}
}

// heartbeat opens a connection that gives a word for each answer; nil: there is none to be had.
func (l *life) heartbeat(ctx context.Context, answers chan<- struct{}) *zmtp.Socket {
	ctx, cancel := context.WithTimeout(ctx, hbDialTime)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", connection(l.kernel.cfg.Dir).Path(heartbeatPort))
	if err != nil {
		return nil
	}
	s, err := l.open(conn, "DEALER", []byte(wire.NewID()))
	if err != nil {
		return nil
	}
	l.during(func(context.Context) { s.Write() })
	l.during(func(context.Context) {
		defer s.Close()
		for {
			if _, err := s.Receive(); err != nil {
				return
			}
			select {
			case answers <- struct{}{}:
			default:
			}
		}
	})
	return s
}

// hangs notes whether the process has stopped answering, and tells it when that changes.
func (k *Kernel) hangs(is bool) {
	k.mu.Lock()
	changes := k.hung != is
	k.hung = is
	k.mu.Unlock()
	switch {
	case changes && is:
		k.cfg.Logger.Warn("the kernel's process does not answer")
		k.Tell("the kernel's process does not answer: somebody has stopped it, or its host is overloaded. It is left alone and goes on when it can; "+
			"restart the kernel if it does not", false)
	case changes:
		k.Tell("the kernel's process answers again", false)
	}
}
