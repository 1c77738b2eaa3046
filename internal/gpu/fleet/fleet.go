// Package fleet keeps the GPUs of this host: it knows what there is, what state it is in, and makes real what the
// engine has leased.
//
// It promises that what somebody else made or runs on a GPU is never destroyed, switched or killed; that whatever it
// makes is in the store before it is made, so that the service may end at any instant and its successor knows its own;
// that a place that has failed is not offered again for a while, with the reason in words; and that a slow or dead GPU
// keeps nobody waiting but those who want that GPU: changes come one at a time on each GPU, and who reads never waits
// for the driver.
//
// It must not decide who gets what: who holds a slice is the engine's word alone, asked through Config.Held each time
// it matters.
package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"slipway/internal/gpu"
	"slipway/internal/gpu/mps"
	"slipway/internal/gpu/placement"
)

// Store keeps what must outlive the service. A crash of the host need not be survived, for no instance of a GPU
// survives it either: but by what an administrator has said, which is brought to the disk with Sync.
type Store interface {
	Put(ctx context.Context, bucket, key string, value any) error
	Delete(ctx context.Context, bucket, key string) error
	All(ctx context.Context, bucket string) iter.Seq2[Record, error]
	Sync(ctx context.Context) error
}

// Record is one key and its JSON value.
type Record = struct {
	Key   string
	Value json.RawMessage
}

// MPS is what runs the daemons of mode mps. mps.Daemons does.
type MPS interface {
	Probe(ctx context.Context) (mps.Ability, error)
	Share(ctx context.Context, uuid, holder string, uid, percent int, memory int64) (mps.Share, error)
	End(ctx context.Context, uuid, holder string, pids []int) error
	Release(ctx context.Context, uuid, holder string) error
	Health(ctx context.Context, uuid string) (mps.State, error)
}

// Rule says what the GPUs that match it are used for. The first rule that matches a GPU counts; a GPU without one is
// given out whole.
type Rule struct {
	Match  string // "*", an index, the beginning of a UUID, or a part of the model's name in any case
	Mode   gpu.Mode
	Layout []string // mig: instances that are made once and kept. Empty: as needed
	Adopt  bool     // mig: use instances that somebody else makes, and make none
	AtOnce int      // mps, shared: most workloads; 0: 48 and 4
	Drain  bool     // nothing new starts on it
}

// Config says what a fleet is made of.
type Config struct {
	Driver     gpu.Driver
	Store      Store
	Rules      []Rule
	Policy     placement.Policy
	Headroom   float64
	SwitchMIG  bool          // MIG mode may be switched, on empty GPUs that need no reset for it
	Quarantine time.Duration // of a place that has failed once; it doubles each time. 0: 30 min
	Every      time.Duration // between two looks at all GPUs; 0: 10 s
	// Boot changes with every boot of the host: instances made in another one are not ours. Empty: instances survive
	// boots.
	Boot string

	Held func() []gpu.Lease // who holds what. It is never called under the fleet's lock
	// the workload that a process of the host belongs to; "" for a foreign one. Nil: none is ours
	Whose func(pid int) string
	Use   func(holder string) gpu.Use // how a slice is used; nil: nobody measures
	// Bind says what a container needs for a slice. in is nil unless the GPU is cut.
	Bind func(dev gpu.Device, in *gpu.Instance, s gpu.Slice, holder string) (gpu.Binding, error)
	MPS  MPS                     // nil: mode mps cannot be had
	User func(holder string) int // mps: the uid that a workload's processes have. Nil: it is not known
	// something may have come free, or gone; called by Run only. Nil: nobody wants to know
	Changed func()

	Proc    string // empty: /proc
	Cgroups string // empty: /sys/fs/cgroup
	Logger  *slog.Logger
}

// Fleet keeps the GPUs of this host. Its methods may be called at once from several goroutines.
type Fleet struct {
	cfg    Config
	log    *slog.Logger
	engine *placement.Engine

	now       atomic.Pointer[snapshot] // what readers see
	surveying chan struct{}            // one survey at a time
	wake      chan struct{}            // some GPU is to be looked at soon
	changed   chan struct{}            // Changed is to be called

	mu     sync.Mutex // guards all below; held over writes to the store, never over the driver or the engine
	cards  []*card    // in the order of their indices
	system gpu.System
	taken  time.Time // when the GPUs were last listed
	fault  string    // why they could not be, since
	book   book

	ability  mps.Ability
	probed   bool
	mpsFault string // why mode mps cannot be had
}

const (
	patience    = 10 * time.Second // that a change of a GPU may take beyond the driver's own time
	askTimeout  = 30 * time.Second // for a question to the driver
	makeTimeout = 3 * time.Minute  // for making a slice real, or bringing a GPU into its mode
	linger      = 2 * time.Second  // that processes of a workload that has ended may take to leave a GPU
	recheck     = time.Second      // between two looks at a GPU that something is wrong with
	switchPause = time.Minute      // between two tries to switch MIG mode
)

// New makes a fleet, reads what it knows from the store, and looks at the GPUs once. A driver that does not answer is
// no error: the fleet is then empty, and says so.
func New(ctx context.Context, cfg Config) (*Fleet, error) {
	cfg = withDefaults(cfg)
	f := &Fleet{
		cfg: cfg, log: cfg.Logger, engine: placement.New(cfg.Policy, cfg.Headroom),
		surveying: make(chan struct{}, 1), wake: make(chan struct{}, 1), changed: make(chan struct{}, 1),
	}
	var err error
	if f.book, err = openBook(ctx, cfg.Store, cfg.Boot); err != nil {
		return nil, fmt.Errorf("read what is known of the GPUs: %w", err)
	}
	f.now.Store(&snapshot{fault: "the GPUs have not been looked at yet"})
	_ = f.Refresh(ctx) // the inventory has it
	return f, ctx.Err()
}

func withDefaults(cfg Config) Config {
	set := func(d *time.Duration, usual time.Duration) {
		if *d <= 0 {
			*d = usual
		}
	}
	set(&cfg.Quarantine, 30*time.Minute)
	set(&cfg.Every, 10*time.Second)
	if cfg.Policy == "" {
		cfg.Policy = placement.Frag
	}
	if cfg.Proc == "" {
		cfg.Proc = "/proc"
	}
	if cfg.Cgroups == "" {
		cfg.Cgroups = "/sys/fs/cgroup"
	}
	if cfg.Changed == nil {
		cfg.Changed = func() {}
	}
	return cfg
}

// Run looks at the GPUs again and again until ctx ends, and then waits for what it has begun.
func (f *Fleet) Run(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	tick, again := time.NewTicker(f.cfg.Every), time.NewTicker(recheck)
	defer tick.Stop()
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.changed:
			f.cfg.Changed()
		case <-tick.C:
			all.Go(func() { f.survey(ctx, &all) })
		case <-f.wake:
			f.attend(ctx, &all)
		case <-again.C:
			f.attend(ctx, &all)
		}
	}
}

// Refresh looks at all GPUs now and returns when it is done. What is being looked at or changed already is not waited
// for. Its error says that the driver could not be asked.
func (f *Fleet) Refresh(ctx context.Context) error {
	var all sync.WaitGroup
	err := f.survey(ctx, &all)
	all.Wait()
	return err
}

// attend looks at those GPUs that somebody has asked to look at.
func (f *Fleet) attend(ctx context.Context, all *sync.WaitGroup) {
	f.mu.Lock()
	var due []*card
	for _, c := range f.cards {
		if c.due {
			due = append(due, c)
		}
	}
	f.mu.Unlock()
	for _, c := range due {
		all.Go(func() { f.inspect(ctx, c) })
	}
}

// ask returns the time that a question to the driver may take.
func ask(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, askTimeout)
}

// poke has Run look at what is due. It never waits.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// isGone reports whether the driver says that the GPU is not there.
func isGone(err error) bool { return errors.Is(err, gpu.ErrLost) || errors.Is(err, gpu.ErrNotFound) }
