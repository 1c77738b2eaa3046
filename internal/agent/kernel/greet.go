package kernel

import (
	"context"
	"encoding/json"
	"sync"
	"syscall"
	"time"

	"slipway/internal/agent/control"
	"slipway/kernels/wire"
	"slipway/kernels/zmtp"
)

const (
	nudgeEvery = 500 * time.Millisecond // until the kernel answers and what it prints comes through
	looseTime  = time.Second            // for a kernel to drop nothing
)

// greeting is what is waited for until a kernel is up: that it answers, and that what it prints comes through, for a
// subscription takes a moment.
type greeting struct {
	shell    *zmtp.Socket
	printed  chan struct{} // closed
	answered chan struct{} // closed
	replies  chan wire.Message
}

// greet connects to the process, and waits until it is up.
func (l *life) greet(ctx context.Context) error {
	g, err := l.connectAll(ctx)
	if err != nil {
		return err
	}
	defer g.shell.Close()
	if err := l.nudge(ctx, g); err != nil {
		return err
	}
	l.loosen(ctx, g)
	l.kernel.answers(l)
	return nil
}

// connectAll opens the connections that are the agent's own.
func (l *life) connectAll(ctx context.Context) (g greeting, err error) {
	g = greeting{printed: make(chan struct{}), answered: make(chan struct{}), replies: make(chan wire.Message, 1)}
	if err := l.subscribe(ctx, sync.OnceFunc(func() { close(g.printed) })); err != nil {
		return g, err
	}
	identity := []byte(wire.NewID())
	if g.shell, err = l.connect(ctx, wire.Shell, "DEALER", identity); err != nil {
		return g, err
	}
	answers := sync.OnceFunc(func() { close(g.answered) })
	l.receive(g.shell, wire.Shell, func(m wire.Message) {
		answers()
		select {
		case g.replies <- m:
		default:
		}
	})
	if l.control, err = l.connect(ctx, wire.Control, "DEALER", identity); err != nil {
		return g, err
	}
	l.receive(l.control, wire.Control, func(wire.Message) {})
	return g, nil
}

// subscribe has all that the kernel publishes come here.
func (l *life) subscribe(ctx context.Context, printed func()) error {
	s, err := l.connect(ctx, wire.IOPub, "SUB", nil)
	if err != nil {
		return err
	}
	fill := s.ReadAhead()
	l.during(func(context.Context) { fill() })
	l.during(func(ctx context.Context) {
		l.takeAll(s, wire.IOPub, func(m wire.Message) { printed(); l.kernel.printed(m) })
		s.Close()
		l.mute(ctx)
	})
	return s.Send([][]byte{{1}}) // all
}

// mute ends a process that publishes nothing more and goes on: nobody would see what it does, or that it does anything.
func (l *life) mute(ctx context.Context) {
	if ctx.Err() != nil || l.over(ctx, muteTime) || ctx.Err() != nil {
		return
	}
	l.kernel.cfg.Logger.Warn("the kernel's process has closed the connection by which it publishes: ending it")
	_ = l.signal(syscall.SIGKILL)
}

// nudge asks the kernel until it has answered and that was to be seen.
func (l *life) nudge(ctx context.Context, g greeting) error {
	every := time.NewTicker(nudgeEvery)
	defer every.Stop()
	for {
		if err := l.ask(g.shell, wire.Shell, "kernel_info_request", struct{}{}); err != nil {
			return err
		}
		if g.up(ctx, every.C) {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// up waits until both have come, or until it is time to ask again.
func (g greeting) up(ctx context.Context, again <-chan time.Time) bool {
	for _, comes := range []<-chan struct{}{g.printed, g.answered} {
		select {
		case <-comes:
		case <-again:
			return false
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// looseCode lifts the limit of 1000 messages from which on libzmq drops what is printed, in the thread that has the
// socket.
const looseCode = `(lambda t: t.schedule(lambda: setattr(t.socket, "sndhwm", 0)))(get_ipython().kernel.iopub_socket.io_thread)`

// loosen has IPython drop nothing of what is printed. It leaves no trace in the user's history, and other kernels
// alone; where it does not work the kernel is as it was.
func (l *life) loosen(ctx context.Context, g greeting) {
	var info struct {
		Implementation string `json:"implementation"`
	}
	if m := <-g.replies; json.Unmarshal(m.Content, &info) != nil || info.Implementation != "ipython" {
		return
	}
	request := map[string]any{
		"code": looseCode, "silent": true, "store_history": false, "allow_stdin": false, "user_expressions": struct{}{},
	}
	if l.ask(g.shell, wire.Shell, "execute_request", request) != nil {
		return
	}
	t := time.NewTimer(looseTime)
	defer t.Stop()
	for {
		select {
		case m := <-g.replies:
			if m.Type() == "execute_reply" {
				return
			}
		case <-t.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// answers says that a process is up.
func (k *Kernel) answers(l *life) {
	k.mu.Lock()
	l.answered, k.acted = time.Now(), time.Now()
	k.state = control.KernelIdle
	first := !k.greeted
	k.greeted = true
	k.change()
	k.mu.Unlock()
	if first {
		k.cfg.Ready()
	} else {
		k.rests()
	}
	k.resume(l)
}
