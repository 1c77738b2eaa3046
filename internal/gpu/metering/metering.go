// Package metering measures how much of their slices workloads use, and says since when one has been idle.
//
// It promises that what cannot be measured is nil, with words that say why, and never 0; that what is not known is not
// called idle; that energy is marked an estimate; and that its memory is bounded: by the number of GPUs, of leases, and
// of Config.Keep. It takes one reading of each GPU a round, and no other package does. It must not change anything on a
// GPU. Nothing is saved: after a restart of the service peaks, energy and idleness are counted anew.
package metering

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"slipway/internal/gpu"
)

// Config is where readings come from and how they are judged.
type Config struct {
	Read      func(ctx context.Context, uuid string) (gpu.Reading, error)
	Inventory func() gpu.Inventory
	Held      func() []gpu.Lease
	// workload of a host's process; "" for a foreign one. Nil: processes cannot be told apart
	Whose     func(pid int) string
	Every     time.Duration // between two rounds; 0: 10 s
	IdleAfter time.Duration // a slice is idle when it has been quiet for so long; 0: 10 min
	BusySM    float64       // percent; below it a slice is quiet; 0: 1
	Keep      int           // most released slices that are still known, for a day; 0: 256
	Logger    *slog.Logger
}

const (
	readTimeout  = 5 * time.Second // a GPU that hangs does not keep the others waiting for longer
	missedRounds = 3               // so many without a word, and nothing is known of the time between
	forgetAfter  = 24 * time.Hour
)

// Sampler measures. Its methods may be called at once from several goroutines; only Run does I/O.
type Sampler struct {
	cfg   Config
	began time.Time

	mu      sync.Mutex // guards all below
	gpus    map[string]*meter
	records map[string]*record // by holder
}

// New makes a sampler. Run lets it measure.
func New(cfg Config) *Sampler {
	if cfg.Every <= 0 {
		cfg.Every = 10 * time.Second
	}
	if cfg.IdleAfter <= 0 {
		cfg.IdleAfter = 10 * time.Minute
	}
	if cfg.BusySM <= 0 {
		cfg.BusySM = 1
	}
	if cfg.Keep <= 0 {
		cfg.Keep = 256
	}
	return &Sampler{cfg: cfg, began: time.Now(), gpus: map[string]*meter{}, records: map[string]*record{}}
}

// Run measures until ctx ends.
func (s *Sampler) Run(ctx context.Context) error {
	tick := time.NewTicker(s.cfg.Every)
	defer tick.Stop()
	for {
		s.round(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// round reads all GPUs at once, and then notes what was read.
func (s *Sampler) round(ctx context.Context) {
	inv := s.cfg.Inventory()
	looks := make([]look, len(inv.GPUs))
	var all sync.WaitGroup
	for i, state := range inv.GPUs {
		all.Go(func() { looks[i] = s.look(ctx, state) })
	}
	all.Wait()
	if ctx.Err() != nil {
		return
	}
	held := s.cfg.Held()
	owners := s.owners(held, looks)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(time.Now(), held, looks, owners)
}

// look is what came of reading one GPU.
type look struct {
	state   gpu.State
	reading gpu.Reading
	at      time.Time
	err     error
}

func (s *Sampler) look(ctx context.Context, state gpu.State) look {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	r, err := s.cfg.Read(ctx, state.Device.UUID)
	return look{state: state, reading: r, at: time.Now(), err: err}
}

// owners says whose the processes are, of GPUs on which that matters. Nil: nobody can tell.
func (s *Sampler) owners(held []gpu.Lease, looks []look) map[int]string {
	if s.cfg.Whose == nil {
		return nil
	}
	matters := map[string]bool{}
	for _, l := range held {
		if byProcess(l) {
			matters[l.Slice.GPU] = true
		}
	}
	owners := map[int]string{}
	for _, k := range looks {
		if k.err != nil || !matters[k.state.Device.UUID] {
			continue
		}
		for _, p := range k.reading.Processes {
			owners[p.PID] = s.cfg.Whose(p.PID)
		}
	}
	return owners
}

// byProcess reports whether the holder of a lease is to be told by its processes: there are others on its slice.
func byProcess(l gpu.Lease) bool {
	return l.Lent != "" || l.Slice.Mode == gpu.MPS || l.Slice.Mode == gpu.Shared
}

// gap is the longest time without a sample after which it still goes on as before.
func (s *Sampler) gap() time.Duration { return missedRounds*s.cfg.Every + readTimeout }
