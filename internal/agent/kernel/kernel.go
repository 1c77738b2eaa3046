// Package kernel keeps one Jupyter kernel: it starts the process, starts it again when it ends by itself, speaks ZeroMQ
// with it, and holds the conversation with each of its clients.
//
// Promises: all that a client is to get lies here, numbered, until the client says that it has it, so that a service
// that restarts and a browser that sleeps miss nothing and get nothing twice, up to a limit of which they are told;
// only the agent has the key of the connection file, and what is not signed with it goes nowhere. What a client says is
// taken once, in the order of its channel; what waits for a process that dies goes with it. What it cannot promise of
// kernels other than IPython: libzmq, in the kernel, drops what is printed when more than 1000 messages wait for the
// agent to take them, which can be when a machine is overloaded. The agent reads ahead of all else to keep it from
// that. IPython is told to drop nothing: there it waits in the kernel's memory. The package must not know how a process
// is started, nor how its clients' streams come here.
package kernel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/kernels/wire"
)

const (
	mostDeaths = 5                // in a row: a kernel that dies again and again is dead
	stable     = 10 * time.Second // a kernel that lived for so long begins a new row
)

// Config is what a kernel needs.
type Config struct {
	Dir     string // for its sockets and its connection file; the user's alone
	Start   func(connectionFile string) (Process, error)
	Ready   func()        // called once, when the kernel answers for the first time
	Message bool          // it is interrupted by a message
	Anew    string        // why it has begun anew, where it has run before elsewhere; empty: it has not
	Beat    time.Duration // between two heartbeats. Zero: 10 s
	Heal    time.Duration // after which it is asked whether the kernel still works on what nobody answers. Zero: 30 s
	Logger  *slog.Logger
}

// Process is one that was started, in a process group of its own.
type Process struct {
	PID  int
	Over <-chan struct{} // closed when it has ended
	// How says, once it is over, how it came to its end and what its user can do. Nil: nobody knows.
	How func() (end, remedy string)
	// Count counts its end, once it is over. Nil: nobody wants to know.
	Count func(*control.Deaths)
}

// Kernel is one kernel, over all of its processes.
type Kernel struct {
	cfg Config
	key *wire.Key
	// seed is of what ids are remembered by.
	seed maphash.Seed

	mu       sync.Mutex
	changed  chan struct{} // closed at the next change of life, and of over
	state    control.KernelState
	life     *life           // of the process that runs; nil: none
	lives    int             // processes so far
	busy     map[string]work // requests that are being worked on, by id
	hung     bool            // the process does not answer its heartbeat
	acted    time.Time
	seats    map[string]*seat
	swept    time.Time
	greeted  bool // Ready was called
	stopped  bool // Stop was called
	over     bool // there is no kernel any more
	untold   []*notice
	born     time.Time
	attached int // clients with a stream
	deaths   control.Deaths

	dropped atomic.Int64 // messages that were not kept for a client
	memory  memory
}

// New makes a kernel. Run begins it.
func New(cfg Config) (*Kernel, error) {
	cfg.Beat, cfg.Heal = cmp.Or(cfg.Beat, beatEvery), cmp.Or(cfg.Heal, healEvery)
	secret, err := writeConnection(cfg.Dir)
	if err != nil {
		return nil, err
	}
	k := &Kernel{
		cfg: cfg, key: wire.NewKey(secret), seed: maphash.MakeSeed(), changed: make(chan struct{}),
		state: control.KernelStarting, busy: map[string]work{},
		acted: time.Now(), seats: map[string]*seat{}, born: time.Now(),
	}
	if cfg.Anew != "" {
		k.Tell(cfg.Anew, true)
	}
	return k, nil
}

// Run starts the kernel and keeps it running, until it dies too often, dies before it has ever answered, cannot be
// started, or ctx ends. Then it is dead, and the error says why; nil after ctx.
func (k *Kernel) Run(ctx context.Context) error {
	defer k.memory.stop()
	deaths := 0
	for {
		l, err := k.start(ctx)
		if err == nil {
			l.run(ctx)
			deaths, err = k.ended(l, deaths)
		}
		if ctx.Err() != nil {
			err = nil
		}
		if err != nil || ctx.Err() != nil {
			k.die()
			return err
		}
	}
}

// start starts a process.
func (k *Kernel) start(ctx context.Context) (*life, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	clearSockets(k.cfg.Dir)
	p, err := k.cfg.Start(connectionFile(k.cfg.Dir))
	if err != nil {
		return nil, err
	}
	l := newLife(k, p)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.life, k.lives = l, k.lives+1
	k.change()
	return l, nil
}

// ended looks at the end of a process: how many deaths are in a row now, and whether there is to be no other.
func (k *Kernel) ended(l *life, deaths int) (int, error) {
	k.mu.Lock()
	k.life, k.busy, k.hung = nil, map[string]work{}, false
	k.state = control.KernelRestarting
	k.change()
	stopped, asked, greeted, answered := k.stopped, l.asked, k.greeted, l.answered
	k.mu.Unlock()
	switch {
	case stopped:
		return 0, errStopped
	case asked:
		return 0, nil
	case !greeted:
		return 0, errors.New("the kernel ended before it answered")
	case !answered.IsZero() && time.Since(answered) > stable:
		deaths = 0
	}
	end, remedy := l.process.how()
	if deaths++; deaths > mostDeaths {
		return deaths, fmt.Errorf("the kernel died %d times in a row: it %s", deaths, end)
	}
	k.cfg.Logger.Warn("the kernel died: starting it again", "deaths", deaths, "end", end)
	k.count(l.process)
	k.falls()
	k.Tell(strings.TrimSpace("the kernel "+end+", and begins anew: its variables are gone. "+remedy), true)
	k.restarts() // JupyterLab shows nothing more under its cells after this
	return deaths, nil
}

// count counts a process that another takes the place of.
func (k *Kernel) count(p Process) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p.Count != nil {
		p.Count(&k.deaths)
	}
}

// Deaths counts the processes that ended without being asked to.
func (k *Kernel) Deaths() control.Deaths {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.deaths
}

func (p Process) how() (end, remedy string) {
	if p.How == nil {
		return "ended by itself", ""
	}
	return p.How()
}

// die leaves it to the service to tell the clients, who listen no more once they have heard that a kernel is dead: it
// alone knows whether the kernel begins anew on another host, and why it does not.
func (k *Kernel) die() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state, k.over, k.life = control.KernelDead, true, nil
	k.abandon()
	k.change()
}

// change tells those who wait. The lock is held.
func (k *Kernel) change() {
	close(k.changed)
	k.changed = make(chan struct{})
}

// restarts tells all clients that the kernel died and begins anew, as a Jupyter Server does. They take for refused what
// they have said before; cells are answered all the same.
func (k *Kernel) restarts() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.actLocked()
	k.refuse()
	k.abandon()
	for _, s := range k.seats {
		s.restarts()
	}
}

// restarts tells a client once: JupyterLab comes again as soon as it hears of it, before anybody knows that it has.
func (s *seat) restarts() {
	m, err := wire.New(
		wire.IOPub, "status", nil, map[string]control.KernelState{"execution_state": control.KernelRestarting},
	)
	if err == nil {
		s.put(entry{data: wire.EncodeV1(m), keep: true, once: true})
	}
}

// rests tells all clients that a new process has nothing to do: those who wait for no answer of it would take it for
// busy.
func (k *Kernel) rests() {
	m, err := wire.New(wire.IOPub, "status", nil, map[string]control.KernelState{"execution_state": control.KernelIdle})
	if err == nil {
		k.broadcast(m, true)
	}
}

// living returns the life of a kernel that answers, behind the number of lives before; it waits for one.
func (k *Kernel) living(ctx context.Context, behind int) (*life, error) {
	for {
		k.mu.Lock()
		l, over, changed := k.life, k.over, k.changed
		if l != nil && (l.answered.IsZero() || k.lives <= behind) {
			l = nil
		}
		k.mu.Unlock()
		if over {
			return nil, errs.New(errs.Conflict, "the kernel is dead").With("start another")
		}
		if l != nil {
			return l, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Interrupt stops what the kernel computes.
func (k *Kernel) Interrupt() error {
	k.mu.Lock()
	l := k.life
	if l == nil || l.answered.IsZero() {
		l = nil
	}
	k.mu.Unlock()
	if l == nil {
		return errs.New(errs.Conflict, "the kernel does not run yet").With("try again once it is idle or busy")
	}
	return l.interrupt()
}

// Restart ends the kernel's process and waits until the next one answers. As with a Jupyter Server, clients are not
// told that the kernel restarts: JupyterLab would take it for a death, whoever has asked for it.
func (k *Kernel) Restart(ctx context.Context) error {
	k.mu.Lock()
	l, lives := k.life, k.lives
	first := l != nil && !l.asked
	if first {
		l.asked, k.state, k.untold = true, control.KernelRestarting, nil
		k.abandon()
	}
	k.mu.Unlock()
	if first {
		l.end(ctx)
	}
	_, err := k.living(ctx, lives)
	return err
}

var errStopped = errors.New("the kernel was stopped")

// Stop says that the process is about to be ended for good: no other is started.
func (k *Kernel) Stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stopped = true
}

// Status says what the kernel does.
func (k *Kernel) Status() control.KernelStatus {
	k.mu.Lock()
	defer k.mu.Unlock()
	return control.KernelStatus{
		State: k.state, Quiet: time.Since(k.acted).Seconds(), Connections: k.attached, Restarts: max(k.lives-1, 0),
		Hung: k.hung,
	}
}

// Acted is when a message last came or went.
func (k *Kernel) Acted() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.acted
}

// Dropped is how many messages were not kept for clients.
func (k *Kernel) Dropped() int64 { return k.dropped.Load() }
