package kernel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/kernels/wire"
	"slipway/kernels/zmtp"
)

const (
	nudgeEvery = 500 * time.Millisecond // until the kernel answers and what it prints comes through
	looseTime  = time.Second            // for a kernel to drop nothing
	politeTime = 2 * time.Second        // for an end that was asked for by a message
	termTime   = 2 * time.Second        // and by a signal
	restTime   = time.Second            // for what a process that has ended left in its sockets
)

// life is one process of a kernel and the connections to it.
type life struct {
	kernel  *Kernel
	process Process

	answered time.Time // zero: not yet. Under the kernel's lock, as the next
	asked    bool      // its end was asked for

	ctx     context.Context // of its sockets
	control *zmtp.Socket    // there once it has answered

	mu     sync.Mutex
	ending bool // nothing more is begun
	work   sync.WaitGroup
}

// begin begins what is awaited at the end of the life. Near that it does nothing.
func (l *life) begin(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ending {
		l.work.Go(f)
	}
}

func (l *life) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ending = true
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
	l.ctx = ctx
	opening, stop := context.WithCancel(ctx)
	defer stop()
	l.begin(func() { l.open(opening) })
	select {
	case <-l.process.Over:
	case <-outer.Done():
		_ = l.signal(syscall.SIGKILL)
		<-l.process.Over
	}
	l.close()
	stop()
	done := make(chan struct{})
	go func() { l.work.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(restTime):
	}
	cancel()
	<-done
}

// open connects, and makes sure that the kernel answers and that what it prints comes through: a subscription takes a moment.
func (l *life) open(ctx context.Context) {
	if err := l.nudge(ctx); err != nil && ctx.Err() == nil {
		l.kernel.cfg.Logger.Warn("the kernel does not speak with the agent: ending it", "error", err)
		_ = l.signal(syscall.SIGKILL)
		return
	}
	l.begin(func() { l.beat(ctx) })
	l.begin(func() { l.heal(ctx) })
}

func (l *life) nudge(ctx context.Context) error {
	iopub, err := l.connect(ctx, wire.IOPub, "SUB", nil)
	if err != nil {
		return err
	}
	l.begin(iopub.ReadAhead())
	if err := iopub.Send([][]byte{{1}}); err != nil { // subscribe to all
		return err
	}
	printed, answered := make(chan struct{}), make(chan struct{})
	l.receive(iopub, wire.IOPub, once(printed), l.kernel.printed)
	identity := []byte(wire.NewID())
	shell, err := l.connect(ctx, wire.Shell, "DEALER", identity)
	if err != nil {
		return err
	}
	replies := make(chan wire.Message, 1)
	l.receive(shell, wire.Shell, once(answered), func(m wire.Message) {
		select {
		case replies <- m:
		default:
		}
	})
	if l.control, err = l.connect(ctx, wire.Control, "DEALER", identity); err != nil {
		return err
	}
	l.receive(l.control, wire.Control, func() {}, func(wire.Message) {})
	every := time.NewTicker(nudgeEvery)
	defer every.Stop()
	for printed != nil || answered != nil {
		if err := l.ask(shell, wire.Shell, "kernel_info_request", struct{}{}); err != nil {
			return err
		}
		for again := false; !again && (printed != nil || answered != nil); {
			select {
			case <-printed:
				printed = nil
			case <-answered:
				answered = nil
			case <-every.C:
				again = true
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	l.loosen(ctx, shell, replies)
	shell.Close()
	l.kernel.answers(l)
	return nil
}

// looseCode lifts the limit of 1000 messages from which on libzmq drops what is printed, in the thread that has the socket.
const looseCode = `(lambda t: t.schedule(lambda: setattr(t.socket, "sndhwm", 0)))(get_ipython().kernel.iopub_socket.io_thread)`

// loosen has IPython drop nothing of what is printed. It leaves no trace in the user's history, and other kernels alone; where it does not
// work the kernel is as it was.
func (l *life) loosen(ctx context.Context, shell *zmtp.Socket, replies <-chan wire.Message) {
	var info struct {
		Implementation string `json:"implementation"`
	}
	if m := <-replies; json.Unmarshal(m.Content, &info) != nil || info.Implementation != "ipython" {
		return
	}
	request := map[string]any{"code": looseCode, "silent": true, "store_history": false, "allow_stdin": false, "user_expressions": struct{}{}}
	if l.ask(shell, wire.Shell, "execute_request", request) != nil {
		return
	}
	t := time.NewTimer(looseTime)
	defer t.Stop()
	for {
		select {
		case m := <-replies:
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

func once(c chan struct{}) func() { return sync.OnceFunc(func() { close(c) }) }

// connect opens a socket, which is closed with the life.
func (l *life) connect(ctx context.Context, c wire.Channel, kind string, identity []byte) (*zmtp.Socket, error) {
	at := connection(l.kernel.cfg.Dir)
	conn, err := dial(ctx, at.Path(at.Port(c)))
	if err != nil {
		return nil, err
	}
	s, err := zmtp.Open(l.ctx, conn, kind, identity)
	if err != nil {
		return nil, err
	}
	l.begin(s.Write)
	return s, nil
}

var tooLarge = fmt.Sprintf("the kernel has sent something of more than %d MiB at once, which was left out: write it to a file, or show less of it", wire.Limit>>20)

// receive takes messages from a socket until it ends. Those that are too large, or not signed as they must be, are left out.
func (l *life) receive(s *zmtp.Socket, c wire.Channel, any func(), take func(wire.Message)) {
	l.begin(func() {
		defer s.Close()
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
			any()
			take(m)
		}
	})
}

// ask sends a request of the agent's own.
func (l *life) ask(s *zmtp.Socket, c wire.Channel, kind string, content any) error {
	m, err := wire.New(c, kind, nil, content)
	if err != nil {
		return err
	}
	return s.Send(l.kernel.key.Frames(m))
}

// tell sends a request on the control channel, of a life that has answered.
func (l *life) tell(kind string, content any) error {
	if err := l.ask(l.control, wire.Control, kind, content); err != nil {
		return errs.New(errs.Unavailable, "send the kernel an %s: %w", kind, err)
	}
	return nil
}

// interrupt stops what the process computes, once it has answered.
func (l *life) interrupt() error {
	if l.kernel.cfg.Message {
		return l.tell("interrupt_request", struct{}{})
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
	if answered && l.tell("shutdown_request", map[string]bool{"restart": true}) == nil && l.over(ctx, politeTime) {
		return
	}
	_ = l.signal(syscall.SIGTERM)
	if !l.over(ctx, termTime) {
		_ = l.signal(syscall.SIGKILL)
	}
}

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

// answers says that a process has answered.
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
		return
	}
	k.rests()
}

// printed takes what the kernel publishes, for all clients. What comes of the agent's own requests is not for them.
func (k *Kernel) printed(m wire.Message) {
	kind := m.Type()
	switch kind {
	case "iopub_welcome":
		return
	case "status":
		if m.ParentSession() == wire.Session {
			return
		}
		k.note(m)
	}
	k.broadcast(m)
	if kind == "execute_input" {
		k.runs(m)
	}
}

const mostBusy = 1000 // requests at once

// note follows what the kernel works on: it may work on several requests at once, each of which begins and ends.
func (k *Kernel) note(m wire.Message) {
	var c struct {
		State control.KernelState `json:"execution_state"`
	}
	if err := json.Unmarshal(m.Content, &c); err != nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	switch id := m.ParentID(); {
	case c.State == control.KernelBusy && len(k.busy) < mostBusy:
		k.busy[id] = work{m.ParentType(), time.Now()}
	case c.State == control.KernelIdle:
		delete(k.busy, id)
	}
	k.workOrRest()
}

// replied takes an answer for the end of its request: that the kernel is idle may be among what libzmq has dropped, and a kernel that looked
// busy for ever would never be culled.
func (k *Kernel) replied(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, works := k.busy[id]; works {
		delete(k.busy, id)
		k.workOrRest()
	}
}

// workOrRest sets the state of a kernel that answers. The lock is held.
func (k *Kernel) workOrRest() {
	if k.life == nil || k.life.answered.IsZero() || k.life.asked {
		return
	}
	if k.state = control.KernelIdle; len(k.busy) > 0 {
		k.state = control.KernelBusy
	}
}

// pass sends a client's message to the kernel, once it answers.
func (k *Kernel) pass(ctx context.Context, s *seat, v1 []byte) error {
	m, err := wire.DecodeV1(v1)
	if err == nil {
		err = m.Check()
	}
	if err == nil && m.Channel == wire.IOPub {
		err = fmt.Errorf("the channel %s leads from the kernel alone", m.Channel)
	}
	if err != nil {
		k.cfg.Logger.Warn("a client's message is left out", "error", err)
		return nil
	}
	l, err := k.living(ctx, 0)
	if err != nil {
		return err
	}
	k.asks(s, m)
	return s.send(l, m)
}

func (k *Kernel) act() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.actLocked()
}

func (k *Kernel) actLocked() { k.acted = time.Now() }
