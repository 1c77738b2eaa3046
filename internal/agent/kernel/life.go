package kernel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"slipway/internal/errs"
	"slipway/kernels/wire"
	"slipway/kernels/zmtp"
)

const (
	politeTime = 2 * time.Second // for an end that was asked for by a message
	termTime   = 2 * time.Second // and by a signal
	restTime   = time.Second     // for what a process that has ended left in its sockets
	// For what a process does that has closed its sockets, as to upload what it has counted, before it ends.
	muteTime = 5 * time.Minute
)

// life is one process of a kernel and the connections to it.
type life struct {
	kernel  *Kernel
	process Process
	tasks   chan func(context.Context) // that run takes
	ended   chan struct{}              // closed when it takes no more
	// open makes a connection a socket, which is closed with the life.
	open    func(c net.Conn, kind string, identity []byte) (*zmtp.Socket, error)
	shut    func()       // closes the sockets
	control *zmtp.Socket // there once it has answered

	answered time.Time // zero: not yet. Under the kernel's lock, as the next
	asked    bool      // its end was asked for
}

func newLife(k *Kernel, p Process) *life {
	ctx, shut := context.WithCancel(context.Background())
	return &life{
		kernel: k, process: p, shut: shut, tasks: make(chan func(context.Context)), ended: make(chan struct{}),
		open: func(c net.Conn, kind string, identity []byte) (*zmtp.Socket, error) {
			return zmtp.Open(ctx, c, kind, identity)
		},
	}
}

// during has something done while the life goes on, which awaits it. Its context ends with the process; sockets are
// open for longer.
func (l *life) during(f func(context.Context)) {
	select {
	case l.tasks <- f:
	case <-l.ended:
	}
}

// signal sends a signal to the process and all of its group, while it is there.
func (l *life) signal(s syscall.Signal) error {
	select {
	case <-l.process.Over:
		return nil
	default:
		return syscall.Kill(-l.process.PID, s)
	}
}

// run speaks with the process until it has ended.
func (l *life) run(outer context.Context) {
	ctx, cancel := context.WithCancel(outer)
	defer cancel()
	var work sync.WaitGroup
	work.Go(func() { l.begin(ctx) })
	for over, end := false, outer.Done(); !over; {
		select {
		case f := <-l.tasks:
			work.Go(func() { f(ctx) })
		case <-end:
			_ = l.signal(syscall.SIGKILL)
			end = nil
		case <-l.process.Over:
			over = true
		}
	}
	close(l.ended)
	cancel()
	rest := time.AfterFunc(restTime, l.shut)
	work.Wait()
	rest.Stop()
	l.shut()
}

// begin has the kernel answer, and looks after it from then on.
func (l *life) begin(ctx context.Context) {
	if err := l.greet(ctx); err != nil {
		if ctx.Err() == nil {
			l.kernel.cfg.Logger.Warn("the kernel does not speak with the agent: ending it", "error", err)
			_ = l.signal(syscall.SIGKILL)
		}
		return
	}
	l.during(l.beat)
	l.during(l.heal)
}

// connect opens a socket of one of the channels.
func (l *life) connect(ctx context.Context, c wire.Channel, kind string, identity []byte) (*zmtp.Socket, error) {
	at := connection(l.kernel.cfg.Dir)
	conn, err := dial(ctx, at.Path(at.Port(c)))
	if err != nil {
		return nil, err
	}
	s, err := l.open(conn, kind, identity)
	if err != nil {
		return nil, err
	}
	l.during(func(context.Context) { s.Write() })
	return s, nil
}

var tooLarge = fmt.Sprintf("the kernel has sent something of more than %d MiB at once, which was left out: write it to a file, or show less of it", zmtp.Limit>>20)

// receive takes messages from a socket until it ends.
func (l *life) receive(s *zmtp.Socket, c wire.Channel, take func(wire.Message)) {
	l.during(func(context.Context) {
		defer s.Close()
		l.takeAll(s, c, take)
	})
}

// takeAll takes messages from a socket until it ends. Those that are too large, or not signed as they must be, are left
// out.
func (l *life) takeAll(s *zmtp.Socket, c wire.Channel, take func(wire.Message)) {
	for {
		frames, err := s.Receive()
		if errors.Is(err, zmtp.ErrTooLarge) {
			l.kernel.cfg.Logger.Warn("a message from the kernel is left out", "channel", c, "error", err)
			l.kernel.Tell(tooLarge, false)
			continue
		}
		if err != nil {
			return
		}
		m, err := l.kernel.key.Parse(c, frames)
		if err != nil {
			l.kernel.cfg.Logger.Warn("a message from the kernel is left out", "channel", c, "error", err)
			continue
		}
		take(m)
	}
}

// ask sends a request of the agent's own.
func (l *life) ask(s *zmtp.Socket, c wire.Channel, kind string, content any) error {
	m, err := wire.New(c, kind, nil, content)
	if err != nil {
		return err
	}
	return s.Send(l.kernel.key.Frames(m))
}

// order sends a request on the control channel, of a life that has answered.
func (l *life) order(kind string, content any) error {
	if err := l.ask(l.control, wire.Control, kind, content); err != nil {
		return errs.New(errs.Unavailable, "send the kernel an %s: %w", kind, err)
	}
	return nil
}

// interrupt stops what the process computes, once it has answered.
func (l *life) interrupt() error {
	if l.kernel.cfg.Message {
		return l.order("interrupt_request", struct{}{})
	}
	if err := l.signal(syscall.SIGINT); err != nil {
		return fmt.Errorf("interrupt the kernel: %w", err)
	}
	return nil
}

// end ends the process: by a message, which it reads once what it computes was interrupted, by a signal, and by force.
func (l *life) end(ctx context.Context) {
	k := l.kernel
	k.mu.Lock()
	answered := !l.answered.IsZero()
	k.mu.Unlock()
	if answered {
		_ = l.interrupt() // the signal comes all the same
	}
	if answered && l.order("shutdown_request", map[string]bool{"restart": true}) == nil && l.over(ctx, politeTime) {
		return
	}
	_ = l.signal(syscall.SIGTERM)
	if !l.over(ctx, termTime) {
		_ = l.signal(syscall.SIGKILL)
	}
}

// over reports whether the process ends within a time.
func (l *life) over(ctx context.Context, within time.Duration) bool {
	t := time.NewTimer(within)
	defer t.Stop()
	select {
	case <-l.process.Over:
		return true
	case <-t.C:
	case <-ctx.Done():
	}
	return false
}
