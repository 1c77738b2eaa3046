package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/jobfiles"
)

// graves is the store's bucket of what is remembered of jobs that were removed because their time was over.
const graves = "expired"

const (
	graveLife   = 90 * 24 * time.Hour // for how long it is remembered
	mostGraves  = 100_000             // of how many jobs
	mostExpired = 100                 // jobs that one resync removes: where the clock is wrong there is time to see it
	tidyEvery   = time.Hour
)

// grave is what is remembered of a job.
type grave struct {
	Hub     string       `json:"hub"`
	Owner   spawner.User `json:"owner"`
	Scan    string       `json:"scan,omitempty"`
	Ended   time.Time    `json:"ended"`
	Removed time.Time    `json:"removed"`
}

func (g grave) workload(id spawner.ID) spawner.Workload {
	return spawner.Workload{ID: id, Kind: spawner.Job, Owner: g.Owner, Hub: g.Hub}
}

// graveyard finds graves.
type graveyard struct {
	jobs  map[spawner.ID]grave
	scans map[string]grave // of each, when the last of its points ended and was removed
}

func newGraveyard() graveyard {
	return graveyard{jobs: map[spawner.ID]grave{}, scans: map[string]grave{}}
}

func (y graveyard) bury(id spawner.ID, g grave) {
	y.jobs[id] = g
	if s := y.scans[g.Scan]; g.Scan != "" {
		g.Ended, g.Removed = latest(g.Ended, s.Ended), latest(g.Removed, s.Removed)
		y.scans[g.Scan] = g
	}
}

func (y graveyard) forget(id spawner.ID, now time.Time) {
	scan := y.jobs[id].Scan
	if delete(y.jobs, id); now.Sub(y.scans[scan].Removed) >= graveLife {
		delete(y.scans, scan)
	}
}

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
		m.forgetGraves(ctx, now)
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
	m.mu.RLock()
	defer m.mu.RUnlock()
	for id, e := range m.work {
		if len(ids) < mostExpired && m.isOverdue(e, now) {
			ids = append(ids, id)
		}
	}
	return ids
}

func (m *Manager) isOverdue(e *entry, now time.Time) bool {
	at := m.expiresLocked(&e.Workload)
	return !at.IsZero() && now.After(at) && e.Want != spawner.WantGone
}

// Expires returns when a job is removed with its files; zero: it has not ended, or never. A point of a scan stays as long as the last of them.
func (m *Manager) Expires(w spawner.Workload) time.Time {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.expiresLocked(&w)
}

func (m *Manager) expiresLocked(w *spawner.Workload) time.Time {
	s := m.index.stays[w.Scan]
	return jobfiles.Expires(w, s.active > 0, s.ended, m.cfg.KeepJobs)
}

// expire removes a job, and has it remembered.
func (m *Manager) expire(ctx context.Context, id spawner.ID, now time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.work[id]
	if e == nil || !m.isOverdue(e, now) { // tried again meanwhile
		return nil
	}
	g := grave{Hub: e.Hub, Owner: e.Owner, Scan: e.Scan, Ended: e.Outcome.At, Removed: now}
	if len(m.graves.jobs) < mostGraves {
		if err := m.mu.save(func() error { return m.cfg.Store.Put(ctx, graves, string(id), g) }); err != nil {
			return err
		}
		m.graves.bury(id, g)
	}
	return m.changeLocked(ctx, e, func(e *entry) { e.Want = spawner.WantGone })
}

// readGraves reads what is remembered.
func (m *Manager) readGraves(ctx context.Context) error {
	for r, err := range m.cfg.Store.All(ctx, graves) {
		if err != nil {
			return fmt.Errorf("read which jobs were removed: %w", err)
		}
		var g grave
		if err := json.Unmarshal(r.Value, &g); err != nil {
			m.log.Warn("what is remembered of a job cannot be read", "id", r.Key, "err", err)
			continue
		}
		m.graves.bury(spawner.ID(r.Key), g)
	}
	return nil
}

func (m *Manager) forgetGraves(ctx context.Context, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, g := range m.graves.jobs {
		if now.Sub(g.Removed) < graveLife {
			continue
		}
		if err := m.mu.save(func() error { return m.cfg.Store.Delete(ctx, graves, string(id)) }); err != nil {
			m.log.Warn("cannot forget a job that was removed", "id", id, "err", err)
			return
		}
		m.graves.forget(id, now)
	}
}

// unknownLocked is the error of what is not there, or not the caller's. Of a job of hers that has had its time it says so.
func (m *Manager) unknownLocked(c spawner.Caller, id spawner.ID) error {
	g, was := m.graves.jobs[id]
	if !was || !c.May(g.workload(id)) {
		return errs.New(errs.NotFound, "there is no session or job %q of yours", id).With("`slipway sessions` and `slipway jobs` list them")
	}
	return g.gone("job", string(id))
}

// noScanLocked says so of a scan.
func (m *Manager) noScanLocked(c spawner.Caller, scan string) error {
	g, was := m.graves.scans[scan]
	if !was || !c.May(g.workload("")) {
		return errs.New(errs.NotFound, "there is no scan %.80q of yours", scan).With("`slipway jobs` lists them")
	}
	return g.gone("scan", scan)
}

// gone is the error of what has had its time.
func (g grave) gone(what, name string) error {
	const day = "2 January 2006"
	return errs.New(errs.NotFound, "%s %s ended on %s and was removed on %s, %d days after its end, as this site does", what, name,
		g.Ended.Format(day), g.Removed.Format(day), int(g.Removed.Sub(g.Ended)/(24*time.Hour))).With("copy what you want to keep of a job before that, or submit it again")
}
