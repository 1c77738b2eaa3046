package service

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
	diskRound = 5 * time.Second  // how often it is looked for sessions whose turn it is
	diskRest  = 10 * time.Minute // the longest pause between two looks at one
	diskShare = 20               // a look at a session costs at most this part of the time
)

// diskWatch looks how much sessions have written beside their homes, and holds them to what they may.
type diskWatch struct {
	sessions func() []spawner.Workload // that run
	written  func(ctx context.Context, id spawner.ID) (int64, error)
	alert    func(ctx context.Context, id spawner.ID, a spawner.Alert)
	end      func(ctx context.Context, id spawner.ID, a spawner.Alert)
	log      *slog.Logger
	known    map[spawner.ID]*diskLooks
}

// diskLooks is what is known of one launch of a session.
type diskLooks struct {
	launch string
	first  int64     // bytes at the first look
	told   int       // percent that its owner was told of
	next   time.Time // when it is looked at again
}

// watchDisks looks until ctx ends.
func (w *diskWatch) run(ctx context.Context) error {
	w.known = map[spawner.ID]*diskLooks{}
	for clock.Sleep(ctx, diskRound) {
		w.round(ctx)
	}
	return nil
}

func (w *diskWatch) round(ctx context.Context) {
	here := map[spawner.ID]bool{}
	for _, s := range w.sessions() {
		if here[s.ID] = true; s.Spec.Resources.Disk <= 0 || ctx.Err() != nil {
			continue
		}
		k := w.known[s.ID]
		if k == nil || k.launch != s.Launch {
			k = &diskLooks{launch: s.Launch, first: -1}
			w.known[s.ID] = k
		}
		if began := time.Now(); !began.Before(k.next) {
			w.look(ctx, s, k)
			k.next = time.Now().Add(min(diskShare*time.Since(began), diskRest))
		}
	}
	for id := range w.known {
		if !here[id] {
			delete(w.known, id)
		}
	}
}

func (w *diskWatch) look(ctx context.Context, s spawner.Workload, k *diskLooks) {
	n, err := w.written(ctx, s.ID)
	if err != nil {
		if !errs.Is(err, errs.NotFound) && ctx.Err() == nil {
			w.log.Debug("cannot see how much a session has written", "id", s.ID, "err", err)
		}
		return
	}
	if k.first < 0 {
		k.first = n
	}
	switch stop, percent := judgeDisk(n, k.first, s.Spec.Resources.Disk); {
	case stop:
		w.end(ctx, s.ID, diskAlert(n, s.Spec.Resources.Disk, true))
	case percent > k.told:
		k.told = percent
		w.alert(ctx, s.ID, diskAlert(n, s.Spec.Resources.Disk, false))
	}
}

// diskSlack is by how much a session may grow that was beyond its limit when it started: its owner is to be able to
// make room in it.
const diskSlack = 64 << 20

// judgeDisk says whether a session is to be ended, and what share of its limit it has reached of which its owner is
// told; 0: none.
func judgeDisk(n, first, limit int64) (stop bool, percent int) {
	switch share := float64(n) / float64(limit); {
	case n > limit && n > first+diskSlack, n > limit && first <= limit:
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

// diskAlert says how much a session has written, and what to do.
func diskAlert(n, limit int64, ended bool) spawner.Alert {
	full := "nearly full"
	if n >= limit {
		full = "full"
	}
	a := spawner.Alert{
		Cause:   spawner.AlertDisk,
		Message: fmt.Sprintf("The disk of this session is "+full+": what was written beside the home takes %s of at most %s", units.DiskWords(n), units.DiskWords(limit)),
		Remedy:  "Remove what you do not need (`du -xh --max-depth=2 /tmp /opt /var | sort -h`), or write to your home or a shared area. Beyond the limit the session is stopped",
	}
	if ended {
		a.Message = fmt.Sprintf("It had written %s beside the home, of at most %s", units.DiskWords(n), units.DiskWords(limit))
		a.Remedy = "Its changes are kept: start it again, and remove what you do not need; or choose a profile with more disk, or discard the changes"
	}
	return a
}

// watchDisks holds the sessions of this host to their limits.
func (s *service) watchDisks(ctx context.Context) error {
	w := diskWatch{sessions: s.runningHere, written: s.docker.Written, alert: s.workloads.Alert, end: s.workloads.Overrun, log: s.log}
	return w.run(ctx)
}

// runningHere returns the sessions that run in containers of this host.
func (s *service) runningHere() (all []spawner.Workload) {
	_ = s.engine.Each(context.Background(), spawner.Caller{System: true}, "", func(w *spawner.Workload) {
		if w.Kind.Session() && w.Phase == spawner.Running && w.Backend == s.docker.Name() {
			all = append(all, *w)
		}
	})
	return all
}
