package spawnertest

import (
	"context"
	"fmt"
	"slices"

	"slipway/internal/errs"
	"slipway/spawner"
)

// Op names a method of the backend.
type Op string

// The methods that a fault can hit.
const (
	Check   Op = "check"
	Start   Op = "start"
	Observe Op = "observe"
	Stop    Op = "stop"
	Remove  Op = "remove"
	List    Op = "list"
	// Those of a Pool alone.
	StagedOutput Op = "remains"
	Withdraw     Op = "withdraw"
)

// Step is the point within a call at which a fault strikes.
type Step int

// The steps. Check and Remains have only Before; Observe, Remove, Withdraw and List have no Halfway.
const (
	Before  Step = iota // nothing is done yet, and nothing is left
	Halfway             // Start: it is created and does not run. Stop: it was asked to end and still runs
	After               // all is done, only the reply is lost or late: a running workload, an old observation
)

// Always is a number of Times without end.
const Always = -1

// Fault makes calls go wrong.
type Fault struct {
	Op    Op
	ID    spawner.ID // empty: every workload
	Step  Step
	Times int // how many calls it hits; zero: one
	// Hold keeps the call until it is closed, or until the call's context ends, which is then the error. In a synctest
	// bubble it must be made there.
	Hold <-chan struct{}
	// Err is the call's error. Nil with a Hold: the call goes on after it. Nil without: an error of kind Unavailable.
	Err error
}

// Inject adds a fault. The function that it returns takes it back.
func (w *world) Inject(fault Fault) (withdraw func()) {
	if fault.Times == 0 {
		fault.Times = 1
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, &fault)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.faults = slices.DeleteFunc(w.faults, func(other *Fault) bool { return other == &fault })
	}
}

// trip lets the first fitting fault strike.
func (w *world) trip(ctx context.Context, op Op, id spawner.ID, step Step) error {
	fault, ok := w.take(op, id, step)
	if !ok {
		return okUnless(ctx, op, id, step)
	}
	if fault.Hold != nil {
		select {
		case <-fault.Hold:
		case <-ctx.Done():
			return fmt.Errorf("%s %s: %w", op, id, ctx.Err())
		}
	}
	if fault.Err == nil && fault.Hold == nil {
		return errs.New(errs.Unavailable, "%s %s: injected fault", op, id)
	}
	return fault.Err
}

// okUnless refuses a call whose context has ended before anything was done.
func okUnless(ctx context.Context, op Op, id spawner.ID, step Step) error {
	if step == Before && ctx.Err() != nil {
		return fmt.Errorf("%s %s: %w", op, id, ctx.Err())
	}
	return nil
}

// take finds the fault that strikes and counts it.
func (w *world) take(op Op, id spawner.ID, step Step) (Fault, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.faults {
		if f.Op == op && f.Step == step && f.Times != 0 && (f.ID == "" || f.ID == id) {
			f.Times = max(f.Times-1, Always)
			return *f, true
		}
	}
	return Fault{}, false
}

func (w *world) note(op Op, id spawner.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, Call{op, id})
}

// Calls returns all calls so far, in order.
func (w *world) Calls() []Call {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.calls)
}

// Count tells how many calls of op there were for id.
func (w *world) Count(op Op, id spawner.ID) int {
	n := 0
	for _, c := range w.Calls() {
		if c.Op == op && c.ID == id {
			n++
		}
	}
	return n
}

// Runs tells how often a workload was started since it was made: what a session's changes remember. Zero: it is not
// there.
func (w *world) Runs(id spawner.ID) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l := w.workloads[id]; l != nil {
		return l.runs
	}
	return 0
}

// Launched returns the launch that a workload was last started or made with.
func (w *world) Launched(id spawner.ID) (spawner.Launch, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l := w.workloads[id]; l != nil {
		return l.launch, true
	}
	return spawner.Launch{}, false
}

// Plant makes a workload that this backend never started, in the given state: what another time left behind.
func (w *world) Plant(id spawner.ID, state spawner.Observation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.workloads[id] = &workload{Observation: state}
}

// Exit lets a running workload end by itself.
func (f *Fake) Exit(id spawner.ID, code int) {
	f.Die(id, spawner.Observation{ExitCode: code})
}

// OutOfMemory lets the kernel kill a running workload.
func (f *Fake) OutOfMemory(id spawner.ID) {
	f.Die(
		id,
		spawner.Observation{ExitCode: 137, Reason: "out of memory (limit 2.0 GB)", Remedy: "start it with more memory"},
	)
}

// Die ends a running workload; o says how.
func (f *Fake) Die(id spawner.ID, o spawner.Observation) {
	o.Existence = spawner.Exited
	if f.replace(id, &o) && f.cfg.Ended != nil {
		f.cfg.Ended(id)
	}
}

// Vanish takes a workload away with all that it left, running or not.
func (f *Fake) Vanish(id spawner.ID) {
	if f.replace(id, nil) && f.cfg.Ended != nil {
		f.cfg.Ended(id)
	}
}

// replace sets the state of a running workload, or with nil drops one in any state; it reports whether it ran until
// now.
func (w *world) replace(id spawner.ID, o *spawner.Observation) (ran bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.workloads[id]
	ran = l != nil && l.Existence == spawner.Up
	switch {
	case o == nil:
		delete(w.workloads, id)
	case ran:
		l.Observation = *o
	}
	return ran
}
