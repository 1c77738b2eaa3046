// Package disklimit looks at how much sessions have written beside their homes, tells their owners as that comes near
// the limit, and has sessions that go beyond it stopped.
//
// It promises that looking costs at most a small part of the time, and that a session which began beyond its limit can
// be used to make room. It must not know how what was written is measured, nor how a session is stopped: Config says
// both.
package disklimit

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"slipway/internal/clock"
	"slipway/internal/errs"
	"slipway/internal/units"
	"slipway/spawner"
)

const (
	roundInterval = 5 * time.Second  // how often it is looked for sessions whose turn it is
	longestPause  = 10 * time.Minute // the longest pause between two looks at one
	costShare     = 20               // a look at a session costs at most this part of the time
)

// Config is what a Watcher needs.
type Config struct {
	Sessions func() []spawner.Workload // that run
	Written  func(ctx context.Context, id spawner.ID) (int64, error)
	Alert    func(ctx context.Context, id spawner.ID, a spawner.Alert) // tells the owner
	Stop     func(ctx context.Context, id spawner.ID, a spawner.Alert) // stops the session
	Logger   *slog.Logger
}

// Watcher holds sessions to their disk limits.
type Watcher struct {
	Config
	known map[spawner.ID]*looks
}

// looks is what is known of one launch of a session.
type looks struct {
	launch string
	first  int64     // bytes at the first look
	told   int       // percent that its owner was told of
	next   time.Time // when it is looked at again
}

// New makes a Watcher.
func New(cfg Config) *Watcher { return &Watcher{cfg, map[spawner.ID]*looks{}} }

// Run looks until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	for clock.Sleep(ctx, roundInterval) {
		w.round(ctx)
	}
	return nil
}

func (w *Watcher) round(ctx context.Context) {
	here := map[spawner.ID]bool{}
	for _, s := range w.Sessions() {
		if here[s.ID] = true; s.Spec.Resources.Disk <= 0 || ctx.Err() != nil {
			continue
		}
		k := w.known[s.ID]
		if k == nil || k.launch != s.Launch {
			k = &looks{launch: s.Launch, first: -1}
			w.known[s.ID] = k
		}
		if began := time.Now(); !began.Before(k.next) {
			w.look(ctx, s, k)
			k.next = time.Now().Add(min(costShare*time.Since(began), longestPause))
		}
	}
	for id := range w.known {
		if !here[id] {
			delete(w.known, id)
		}
	}
}

func (w *Watcher) look(ctx context.Context, s spawner.Workload, k *looks) {
	n, err := w.Written(ctx, s.ID)
	if err != nil {
		if !errs.Is(err, errs.NotFound) && ctx.Err() == nil {
			w.Logger.Debug("cannot see how much a session has written", "id", s.ID, "err", err)
		}
		return
	}
	if k.first < 0 {
		k.first = n
	}
	switch stop, percent := judge(n, k.first, s.Spec.Resources.Disk); {
	case stop:
		w.Stop(ctx, s.ID, alert(n, s.Spec.Resources.Disk, true))
	case percent > k.told:
		k.told = percent
		w.Alert(ctx, s.ID, alert(n, s.Spec.Resources.Disk, false))
	}
}

// slack is by how much a session may grow that was beyond its limit when it started: its owner is to be able to
// make room in it.
const slack = 64 << 20

// judge says whether a session is to be ended, and what share of its limit it has reached of which its owner is
// told; 0: none.
func judge(n, first, limit int64) (stop bool, percent int) {
	switch share := float64(n) / float64(limit); {
	case n > limit && n > first+slack, n > limit && first <= limit:
		return true, 100
	case share >= 1:
		return false, 100
	case share >= 0.95:
		return false, 95
	case share >= 0.8:
		return false, 80
	}
	return false, 0
}

// alert says how much a session has written, and what to do.
func alert(n, limit int64, ended bool) spawner.Alert {
	full := "nearly full"
	if n >= limit {
		full = "full"
	}
	a := spawner.Alert{
		Cause: spawner.AlertDisk,
		Message: fmt.Sprintf(
			"The disk of this session is "+full+": what was written beside the home takes %s of at most %s",
			units.DiskWords(n), units.DiskWords(limit),
		),
		Remedy: "Remove what you do not need (`du -xh --max-depth=2 /tmp /opt /var | sort -h`), " +
			"or write to your home or a shared area. Beyond the limit the session is stopped",
	}
	if ended {
		a.Message = fmt.Sprintf(
			"It had written %s beside the home, of at most %s", units.DiskWords(n), units.DiskWords(limit),
		)
		a.Remedy = "Its changes are kept: start it again, and remove what you do not need; " +
			"or choose a profile with more disk, or discard the changes"
	}
	return a
}
