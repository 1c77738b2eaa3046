package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"slipway/spawner"
	"slipway/spawner/jobfiles"
)

// tombstones is the store's bucket of what is remembered of jobs that were removed because they had expired.
const tombstones = "expired"

const (
	mostExpired = 100 // jobs that one resync removes: where the clock is wrong there is time to see it
	tidyEvery   = time.Hour
)

// retention removes what has had its time. It belongs to resync alone.
type retention struct {
	clock timekeeper
	noted time.Duration // when the service had been up so long, what is known of the clock was last saved; 0: never
	tidy  time.Duration // when the service had been up so long, what is not looked at each time was last
	// tidied: it was, since the service began: one that is started anew each hour clears away as well.
	tidied bool
}

// tidy removes jobs that ended long ago, what is remembered of such jobs, and files that no job has.
func (m *Manager) tidy(ctx context.Context, k *retention) {
	up, now := time.Since(m.born), time.Now()
	believed := k.clock.look(now.Round(0), up, m.clock)
	m.noteClock(ctx, k, up)
	if believed {
		m.expireJobs(ctx, now)
	}
	m.files.ExpireBundles(up)
	if k.tidied && up-k.tidy < tidyEvery {
		return
	}
	k.tidied, k.tidy = true, up
	m.files.ExpireBlobs(now)
	if believed {
		m.dropTombstones(ctx, now)
	}
}

func (m *Manager) expireJobs(ctx context.Context, now time.Time) {
	for _, id := range m.overdue(now) {
		if err := m.expire(ctx, id, now); err != nil {
			m.log.Warn("cannot remove a job whose time is over", "id", id, "err", err)
			return
		}
	}
}

// overdue returns some of the jobs that are to be removed.
func (m *Manager) overdue(now time.Time) (ids []spawner.ID) {
	if m.cfg.KeepJobs == 0 {
		return nil
	}
	v := m.View()
	defer v.End()
	for id, e := range m.work {
		if len(ids) < mostExpired && v.isOverdue(e, now) {
			ids = append(ids, id)
		}
	}
	return ids
}

func (v View) isOverdue(e *Entry, now time.Time) bool {
	at := v.Expires(&e.Workload)
	return !at.IsZero() && now.After(at) && e.Want != spawner.WantGone
}

// Expires returns when a job is removed with its files; zero: it has not ended, or never. A point of a scan stays as
// long as the last of them.
func (m *Manager) Expires(w spawner.Workload) time.Time {
	v := m.View()
	defer v.End()
	return v.Expires(&w)
}

func (v View) Expires(w *spawner.Workload) time.Time {
	s := v.m.index.stays[w.Scan]
	return jobfiles.Expires(w, s.active > 0, s.ended, v.m.cfg.KeepJobs)
}

// expire removes a job, and has it remembered.
func (m *Manager) expire(ctx context.Context, id spawner.ID, now time.Time) error {
	tx := m.Begin()
	defer tx.End()
	e := m.work[id]
	if e == nil || !tx.isOverdue(e, now) { // tried again meanwhile
		return nil
	}
	t := jobfiles.Tombstone{Hub: e.Hub, Owner: e.Owner, Scan: e.Scan, Ended: e.Outcome.At, Removed: now}
	if !m.tombstones.Full() {
		if err := m.mu.save(func() error { return m.cfg.Store.Put(ctx, tombstones, string(id), t) }); err != nil {
			return err
		}
		m.tombstones.Add(id, t)
	}
	return tx.Change(ctx, e, func(e *Entry) { e.Want = spawner.WantGone })
}

// readTombstones reads what is remembered.
func (m *Manager) readTombstones(ctx context.Context) error {
	for r, err := range m.cfg.Store.All(ctx, tombstones) {
		if err != nil {
			return fmt.Errorf("read which jobs were removed: %w", err)
		}
		var t jobfiles.Tombstone
		if err := json.Unmarshal(r.Value, &t); err != nil {
			m.log.Warn("what is remembered of a job cannot be read", "id", r.Key, "err", err)
			continue
		}
		m.tombstones.Add(spawner.ID(r.Key), t)
	}
	return nil
}

func (m *Manager) dropTombstones(ctx context.Context, now time.Time) {
	tx := m.Begin()
	defer tx.End()
	for _, id := range m.tombstones.Old(now) {
		if err := m.mu.save(func() error { return m.cfg.Store.Delete(ctx, tombstones, string(id)) }); err != nil {
			m.log.Warn("cannot forget a job that was removed", "id", id, "err", err)
			return
		}
		m.tombstones.Drop(id, now)
	}
}
