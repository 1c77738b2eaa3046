package engine

import (
	"context"
	"time"

	"slipway/internal/clock"
	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/jobfiles"
)

// resyncer compares all that is wanted with all that is there, from time to time.
type resyncer struct {
	*Records
	files    *jobfiles.Store
	full     func() error // says that the store's disk is full; nil: it never is
	interval time.Duration
	grace    time.Duration

	// What is known of the time before the first look at everything. The lock of the Records guards it.
	ready    bool            // it is done
	blank    bool            // there was no record at all when the service started
	believed map[string]bool // backends that hold nothing of which records were lost; see forgetful
	lost     int             // workloads that run though there is no record at all; see forgetful
}

// resync looks at everything from time to time: first of all at what an earlier run of the service left.
func (s *resyncer) resync(ctx context.Context) {
	strangers := map[spawner.ID]bool{}
	for {
		s.turnShares()
		found := s.backends.Survey(ctx)
		for _, id := range s.toLookAt(found) {
			s.queue.Add(id)
		}
		if !s.forgetful(found) {
			strangers = s.reap(ctx, found, strangers)
			for _, k := range s.all {
				if k.Resynced != nil {
					k.Resynced(ctx)
				}
			}
		}
		tx := s.Begin()
		s.ready = true
		tx.End()
		if !clock.Sleep(ctx, s.interval) {
			return
		}
	}
}

// toLookAt returns the workloads that a closer look may change: at the first time all of them; then those on their way,
// and those that the survey does not show as their phase has them.
func (s *resyncer) toLookAt(found map[string]map[spawner.ID]spawner.Existence) []spawner.ID {
	v := s.View()
	defer v.End()
	var ids []spawner.ID
	for id, e := range s.work {
		list, answered := found[e.Backend]
		if !s.ready || !e.Settled() || answered && !looksSettled(e.Workload, list[id]) {
			ids = append(ids, id)
		}
	}
	return ids
}

// looksSettled reports whether a settled workload may look like seen. A backend's list leaves out what it does not
// hold.
func looksSettled(w spawner.Workload, seen spawner.Existence) bool {
	if w.Phase == spawner.Running {
		return seen == spawner.Up
	}
	return !seen.Alive()
}

// forgetful reports whether the service has lost its records: it started without any, and things run of which it knows
// nothing. It stops none of them, for they are users' work, and starts nothing, for their resources are taken; an
// administrator has to look. A backend is believed to hold nothing of that kind when it has said so once.
func (s *resyncer) forgetful(found map[string]map[spawner.ID]spawner.Existence) bool {
	tx := s.Begin()
	defer tx.End()
	if !s.blank {
		return false
	}
	s.lost = 0
	for name, list := range found {
		strays := tx.strays(list)
		s.believed[name] = s.believed[name] || strays == 0
		if !s.believed[name] {
			s.lost += strays
		}
	}
	if s.lost > 0 {
		s.log.Error(
			"there are no records, yet sessions or jobs run: restore the records, or stop what runs", "running",
			s.lost,
		)
	}
	return s.lost > 0
}

// strays counts what runs without a record.
func (v View) strays(list map[spawner.ID]spawner.Existence) int {
	n := 0
	for id, seen := range list {
		if seen.Alive() && v.r.work[id] == nil {
			n++
		}
	}
	return n
}

// Ready tells why the Manager cannot answer for its workloads yet; nil when it can.
func (s *resyncer) Ready() error {
	v := s.View()
	defer v.End()
	switch {
	case !s.ready:
		return errs.New(errs.Unavailable, "the service is still looking at what runs").
			With("try again in a few seconds")
	case s.lost > 0:
		return errs.New(
			errs.Unavailable, "the service has lost its records: %d sessions and jobs run that it knows nothing of",
			s.lost,
		).With("the administrator restores the records, or stops what runs: see \"Lost records\" in the book, " +
			"/usr/share/doc/slipway/html/run/keeping.html")
	default:
		return nil
	}
}

// Forgot reports whether the service has lost its records.
func (s *resyncer) Forgot() bool {
	v := s.View()
	defer v.End()
	return s.lost != 0
}

// Remembers refuses new work while the service has lost its records, and where it could not keep those of more.
func (s *resyncer) Remembers() error {
	switch {
	case s.Forgot():
		return s.Ready()
	case s.full != nil:
		return s.full()
	default:
		return nil
	}
}

// mostReaped is how many workloads without a record one resync ends.
const mostReaped = 100

// reap ends what runs without a record, when it was there at the last look too (a workload just forgotten is not a
// stranger). Every workload is recorded before anything is started for it, so a stranger means that records were lost:
// what it runs holds resources that nobody leased, and is stopped. A job's remains are removed; a session's are kept,
// for they may be somebody's work, and the administrator is told. One resync ends few: where many records were lost,
// there is time to see it.
func (s *resyncer) reap(
	ctx context.Context, found map[string]map[spawner.ID]spawner.Existence, before map[spawner.ID]bool,
) map[spawner.ID]bool {
	now := map[spawner.ID]bool{}
	reaped := 0
	for name, list := range found {
		for id := range list {
			if s.knows(id) {
				continue
			}
			now[id] = true
			if before[id] && reaped < mostReaped && s.backends.Reap(ctx, name, id, s.grace) {
				reaped++
			}
		}
	}
	if reaped == mostReaped {
		s.log.Warn(
			"there is more without a record than one resync ends; it goes on with the next", "ended", reaped, "found",
			len(now),
		)
	}
	s.files.ReapDirs(before, now)
	tx := s.Begin()
	s.counters.orphans = len(now)
	tx.End()
	return now
}

// knows reports whether there is a record of id.
func (r *Records) knows(id spawner.ID) bool {
	v := r.View()
	defer v.End()
	return r.work[id] != nil
}

// turnShares has who waits stand in the order of what users have had until now, and looks at who is next in it.
func (r *Records) turnShares() {
	tx := r.Begin()
	defer tx.End()
	r.sched.Tick(time.Now())
	tx.wakeHeads()
}
