package engine

import (
	"context"
	"time"

	"slipway/internal/clock"
	"slipway/spawner"
)

// firstLook is what is known of the time before the first look at everything.
type firstLook struct {
	ready    bool            // it is done
	blank    bool            // there was no record at all when the service started
	believed map[string]bool // backends that hold nothing of which records were lost; see forgetful
	lost     int             // workloads that run though there is no record at all; see forgetful
}

// resync looks at everything from time to time: first of all at what an earlier run of the service left.
func (m *Manager) resync(ctx context.Context) {
	strangers := map[spawner.ID]bool{}
	for {
		m.turnShares()
		found := m.Survey(ctx)
		for _, id := range m.toLookAt(found) {
			m.queue.Add(id)
		}
		if !m.forgetful(found) {
			strangers = m.reap(ctx, found, strangers)
			for _, k := range m.kinds.all {
				if k.Resynced != nil {
					k.Resynced(ctx)
				}
			}
		}
		tx := m.Begin()
		m.first.ready = true
		tx.End()
		if !clock.Sleep(ctx, m.cfg.Interval) {
			return
		}
	}
}

// toLookAt returns the workloads that a closer look may change: at the first time all of them; then those on their way,
// and those that the survey does not show as their phase has them.
func (m *Manager) toLookAt(found map[string]map[spawner.ID]spawner.Existence) []spawner.ID {
	v := m.View()
	defer v.End()
	var ids []spawner.ID
	for id, e := range m.work {
		list, answered := found[e.Backend]
		if !m.first.ready || !e.Settled() || answered && !looksSettled(e.Workload, list[id]) {
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
func (m *Manager) forgetful(found map[string]map[spawner.ID]spawner.Existence) bool {
	tx := m.Begin()
	defer tx.End()
	if !m.first.blank {
		return false
	}
	m.first.lost = 0
	for name, list := range found {
		strays := tx.strays(list)
		m.first.believed[name] = m.first.believed[name] || strays == 0
		if !m.first.believed[name] {
			m.first.lost += strays
		}
	}
	if m.first.lost > 0 {
		m.log.Error(
			"there are no records, yet sessions or jobs run: restore the records, or stop what runs", "running",
			m.first.lost,
		)
	}
	return m.first.lost > 0
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

// Remembers refuses new work while the service has lost its records, and where it could not keep those of more.
func (m *Manager) Remembers() error {
	v := m.View()
	lost := m.first.lost
	v.End()
	switch {
	case lost != 0:
		return m.Ready()
	case m.cfg.Full != nil:
		return m.cfg.Full()
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
func (m *Manager) reap(
	ctx context.Context, found map[string]map[spawner.ID]spawner.Existence, before map[spawner.ID]bool,
) map[spawner.ID]bool {
	now := map[spawner.ID]bool{}
	reaped := 0
	for name, list := range found {
		for id := range list {
			if m.knows(id) {
				continue
			}
			now[id] = true
			if before[id] && reaped < mostReaped && m.Reap(ctx, name, id, m.cfg.Limits.Grace) {
				reaped++
			}
		}
	}
	if reaped == mostReaped {
		m.log.Warn(
			"there is more without a record than one resync ends; it goes on with the next", "ended", reaped, "found",
			len(now),
		)
	}
	m.files.ReapDirs(before, now)
	tx := m.Begin()
	m.counters.orphans = len(now)
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
func (m *Manager) turnShares() {
	tx := m.Begin()
	defer tx.End()
	m.sched.Tick(time.Now())
	tx.wakeHeads()
}
