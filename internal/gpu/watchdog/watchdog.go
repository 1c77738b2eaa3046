// Package watchdog watches the memory of GPUs that workloads share by time slicing, where nothing else does.
//
// It promises to end a workload only when it was above the memory that was agreed with it in every reading over a time
// of grace, two at least, and to have warned it first. It never ends one that is within its share, however full the GPU
// is, nor a process that is no workload's: those are named to the administrator. What it decides is decided by a pure
// function.
package watchdog

import (
	"context"
	"log/slog"
	"time"

	"slipway/internal/gpu"
)

// Reading is a reading of one GPU.
type Reading struct {
	GPU   string    // UUID
	Total int64     // bytes of its memory
	Taken time.Time // when the reading began
	gpu.Reading
}

// Config says what is watched and who is told.
type Config struct {
	Readings func() []Reading     // the last one of each GPU; one that was given before is not looked at again
	Held     func() []gpu.Lease   // slices of any mode: only those that nothing else keeps to their memory are watched
	Whose    func(pid int) string // the workload of a process; empty: it is none
	// Warn tells a workload's user something. It does not wait.
	Warn func(workload, text string)
	// End ends a workload and tells its user why. It is called again while the workload goes on using too much.
	End    func(ctx context.Context, workload, why string) error
	Logger *slog.Logger

	Every time.Duration // between two looks; 0: 2 s
	Rules Rules
}

// Rules say what is too much for too long. Zero fields are the defaults.
type Rules struct {
	Grace time.Duration // between the first reading above the share and the end; 0: 10 s
	Stale time.Duration // readings that are further apart are not two in a row; 0: 1 min
	Full  float64       // the part of the GPU's memory from which on it is nearly full; 0: 0.95
}

func (r Rules) filled() Rules {
	if r.Grace == 0 {
		r.Grace = 10 * time.Second
	}
	if r.Stale == 0 {
		r.Stale = time.Minute
	}
	if r.Full == 0 {
		r.Full = 0.95
	}
	return r
}

// Watchdog watches. Make one with New.
type Watchdog struct {
	cfg  Config
	seen map[string]memory // by GPU; only Run touches it
}

// New makes one. It looks at nothing before Run.
func New(cfg Config) *Watchdog {
	if cfg.Every == 0 {
		cfg.Every = 2 * time.Second
	}
	cfg.Rules = cfg.Rules.filled()
	return &Watchdog{cfg: cfg, seen: map[string]memory{}}
}

// Run watches until ctx ends.
func (w *Watchdog) Run(ctx context.Context) error {
	tick := time.NewTicker(w.cfg.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			w.round(ctx)
		}
	}
}

// round judges what is new, and forgets GPUs that are not read any more.
func (w *Watchdog) round(ctx context.Context) {
	held, seen := w.cfg.Held(), map[string]memory{}
	for _, r := range w.cfg.Readings() {
		verdicts, after := judge(r, held, w.cfg.Whose, w.seen[r.GPU], w.cfg.Rules)
		seen[r.GPU] = after
		for _, v := range verdicts {
			w.carryOut(ctx, r.GPU, v)
		}
	}
	w.seen = seen
}

func (w *Watchdog) carryOut(ctx context.Context, uuid string, v verdict) {
	switch v.act {
	case warn:
		w.cfg.Warn(v.workload, v.text)
	case end:
		w.cfg.Logger.WarnContext(
			ctx, "workload uses more GPU memory than agreed and is ended", "workload", v.workload, "gpu", uuid, "why",
			v.text,
		)
		if err := w.cfg.End(ctx, v.workload, v.text); err != nil {
			w.cfg.Logger.ErrorContext(
				ctx, "cannot end a workload that uses too much GPU memory", "workload", v.workload, "err", err,
			)
		}
	case name:
		w.cfg.Logger.WarnContext(ctx, v.text, "gpu", uuid, "pid", v.pid)
	}
}
