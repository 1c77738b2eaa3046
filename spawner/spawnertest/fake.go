// Package spawnertest has what tests of the engine and of its backends share: Fake, a backend in memory that goes wrong
// on demand, and Run, the suite that every backend passes, Fake among them. So what the engine's tests learn of Fake
// holds for the real backends too.
//
// Fake is safe for concurrent use and may live in a testing/synctest bubble: it starts no goroutines and waits only on
// channels and timers. The package must not import a real backend.
package spawnertest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"slipway/internal/errs"
	"slipway/spawner"
)

// AgentEnv is the public variable by which a test tells the agent what to do: Fake obeys it as the program of AgentDir
// does. Empty: stay until asked to end, then exit with 0.
const AgentEnv = "SLIPWAY_TEST_AGENT"

// What AgentEnv may ask for.
const (
	Stubborn = "stubborn" // ignore the request to end
	ExitWith = "exit "    // with a number: end at once with that code
)

// Config is what a Fake is made of. Its zero value is good.
type Config struct {
	Name string // the backend's name; empty: "fake"
	// Started is called when a workload has come up, before Start returns: here a test plays the agent. Not called for
	// what was adopted.
	Started func(spawner.Launch)
	// Ended is called whenever a running workload has ended, by whatever cause.
	Ended func(spawner.ID)
	// StartTime and StopTime are how long those calls take when nothing is wrong.
	StartTime, StopTime time.Duration
}

// Fake is a backend in memory. A Fake made by Again shares everything with the first, as a backend of a restarted
// service does.
type Fake struct {
	cfg Config
	*world
}

var _ spawner.Backend = (*Fake)(nil)

// world is what outlives the service.
type world struct {
	mu        sync.Mutex // guards the fields below
	workloads map[spawner.ID]*workload
	faults    []*Fault
	calls     []Call
}

// workload is what the fake holds of one.
type workload struct {
	spawner.Observation
	launch spawner.Launch
	runs   int // starts since it was made: a session's changes
}

// Call is one call that the Fake got. List and Check have no ID.
type Call struct {
	Op Op
	ID spawner.ID
}

// New makes a Fake that holds nothing.
func New(cfg Config) *Fake {
	if cfg.Name == "" {
		cfg.Name = "fake"
	}
	return &Fake{cfg: cfg, world: &world{workloads: map[spawner.ID]*workload{}}}
}

// Again makes another Fake over the same workloads and faults, as after a restart of the service.
func (f *Fake) Again(cfg Config) *Fake {
	cfg.Name = f.cfg.Name
	return &Fake{cfg: cfg, world: f.world}
}

// Name returns the configured name.
func (f *Fake) Name() string { return f.cfg.Name }

// Check succeeds unless a fault is injected.
func (f *Fake) Check(ctx context.Context) error {
	f.note(Check, "")
	return f.trip(ctx, Check, "", Before)
}

// Start brings a workload up.
func (f *Fake) Start(ctx context.Context, l spawner.Launch) error {
	f.note(Start, l.ID)
	if err := f.trip(ctx, Start, l.ID, Before); err != nil {
		return err
	}
	if err := wait(ctx, f.cfg.StartTime); err != nil {
		return fmt.Errorf("start %s: %w", l.ID, err)
	}
	if f.create(l) {
		return f.trip(ctx, Start, l.ID, After)
	}
	if err := f.trip(ctx, Start, l.ID, Halfway); err != nil {
		return err
	}
	if err := f.launch(ctx, l); err != nil {
		return err
	}
	if f.cfg.Started != nil {
		f.cfg.Started(l)
	}
	f.obey(l)
	return f.trip(ctx, Start, l.ID, After)
}

// create makes the workload's record and reports whether it runs already.
func (f *Fake) create(l spawner.Launch) (running bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.workloads[l.ID]
	if w == nil {
		f.workloads[l.ID] = &workload{Observation: spawner.Observation{Existence: spawner.Created}, launch: l}
		return false
	}
	return w.Existence == spawner.Up
}

// launch lets the created workload run.
func (f *Fake) launch(ctx context.Context, l spawner.Launch) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.workloads[l.ID]
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("start %s: %w", l.ID, ctx.Err())
	case w == nil:
		return errs.New(errs.Conflict, "start %s: it vanished meanwhile", l.ID)
	case l.Kind.Batch() && w.Existence == spawner.Exited:
		return errs.New(errs.Conflict, "start %s: the job ran already", l.ID)
	}
	w.Observation, w.launch = spawner.Observation{Existence: spawner.Up}, l
	w.runs++
	return nil
}

// obey does what AgentEnv asks of a fresh agent.
func (f *Fake) obey(l spawner.Launch) {
	if text, ok := strings.CutPrefix(l.Spec.Env[AgentEnv], ExitWith); ok {
		code, err := strconv.Atoi(text)
		if err != nil {
			code = 2
		}
		f.Exit(l.ID, code)
	}
}

// Observe looks.
func (f *Fake) Observe(ctx context.Context, id spawner.ID) (spawner.Observation, error) {
	f.note(Observe, id)
	if err := f.trip(ctx, Observe, id, Before); err != nil {
		return spawner.Observation{Existence: spawner.Unknown}, err
	}
	seen := f.look(id)
	if err := f.trip(ctx, Observe, id, After); err != nil {
		return spawner.Observation{Existence: spawner.Unknown}, err
	}
	return seen, nil
}

func (f *Fake) look(id spawner.ID) spawner.Observation {
	f.mu.Lock()
	defer f.mu.Unlock()
	if w := f.workloads[id]; w != nil {
		return w.Observation
	}
	return spawner.Observation{Existence: spawner.Absent}
}

// Stop ends a workload.
func (f *Fake) Stop(ctx context.Context, id spawner.ID, grace time.Duration) error {
	f.note(Stop, id)
	if err := f.trip(ctx, Stop, id, Before); err != nil {
		return err
	}
	if f.look(id).Existence == spawner.Up {
		if err := f.end(ctx, id, grace); err != nil {
			return err
		}
	}
	return f.trip(ctx, Stop, id, After)
}

func (f *Fake) end(ctx context.Context, id spawner.ID, grace time.Duration) error {
	if err := f.trip(ctx, Stop, id, Halfway); err != nil {
		return err
	}
	takes, code := f.cfg.StopTime, 0
	if f.env(id)[AgentEnv] == Stubborn {
		takes = grace
	}
	if takes >= grace {
		takes, code = grace, 137
	}
	if err := wait(ctx, takes); err != nil {
		return fmt.Errorf("stop %s: %w", id, err)
	}
	f.Exit(id, code)
	return nil
}

func (f *Fake) env(id spawner.ID) map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if w := f.workloads[id]; w != nil {
		return w.launch.Spec.Env
	}
	return nil
}

// Remove forgets a stopped workload.
func (f *Fake) Remove(ctx context.Context, id spawner.ID) error {
	f.note(Remove, id)
	if err := f.trip(ctx, Remove, id, Before); err != nil {
		return err
	}
	if f.look(id).Existence == spawner.Up {
		return errs.New(errs.Conflict, "remove %s: it runs", id)
	}
	f.Vanish(id)
	return f.trip(ctx, Remove, id, After)
}

// List returns what the fake holds.
func (f *Fake) List(ctx context.Context) (map[spawner.ID]spawner.Existence, error) {
	f.note(List, "")
	if err := f.trip(ctx, List, "", Before); err != nil {
		return nil, err
	}
	held := f.Held()
	if err := f.trip(ctx, List, "", After); err != nil {
		return nil, err
	}
	return held, nil
}

// Held returns what List does, and is no call that a fault can hit.
func (f *Fake) Held() map[spawner.ID]spawner.Existence {
	f.mu.Lock()
	defer f.mu.Unlock()
	held := map[spawner.ID]spawner.Existence{}
	for id, w := range f.workloads {
		held[id] = w.Existence
	}
	return held
}

// wait lasts d, or until ctx ends, which is then the error.
func wait(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil || d <= 0 {
		return err
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
