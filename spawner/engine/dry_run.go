package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"slipway/internal/clock"
	"slipway/internal/errs"
	"slipway/spawner"
)

// Plan says what would become of a job, and refuses what SubmitJob would refuse as it is asked for, whatever
// environment it is to run in. It does nothing else: it is asked before a session is frozen for a job that could never
// run.
func (m *Manager) Plan(ctx context.Context, c spawner.Caller, req spawner.JobRequest) (spawner.Plan, error) {
	r, err := m.admissible(ctx, c, submission{JobRequest: req})
	if err != nil {
		return spawner.Plan{}, err
	}
	if err := errors.Join(m.checkJob(ctx, c, r), m.checkPoints(r, r.Points)); err != nil {
		return spawner.Plan{}, err
	}
	w := m.jobOf(c, r, "")
	if err := m.judge(ctx, w); err != nil {
		return spawner.Plan{}, err
	}
	m.learn(w.Principal())
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.affordLocked(w.Principal(), m.demand(r, max(1, len(r.Points)))); err != nil {
		return spawner.Plan{}, err
	}
	return spawner.Plan{Backend: w.Backend, Room: m.sched.Room(w), Typical: m.typicalLocked(w), Use: m.useLocked(w.Principal())}, nil
}

// mostTypical is how many of the jobs that ended last are looked at for how long they run.
const mostTypical = 50

// typicalLocked returns how long the jobs of the owner and the name of w have run that were done last, in the middle;
// negative: there are none.
func (m *Manager) typicalLocked(w spawner.Workload) time.Duration {
	var last []*entry // the latest first
	for _, e := range m.index.owned[w.Principal()] {
		if e.Kind == spawner.Job && e.Name == w.Name && e.Phase == spawner.Stopped && e.Outcome != nil && !e.Outcome.Failed && !e.Outcome.Canceled {
			at, _ := slices.BinarySearchFunc(last, e, func(a, b *entry) int { return b.Outcome.At.Compare(a.Outcome.At) })
			last = slices.Insert(last, at, e)
			last = last[:min(len(last), mostTypical)]
		}
	}
	var took []time.Duration
	for _, e := range last {
		took = append(took, e.ran())
	}
	slices.Sort(took)
	if len(took) == 0 {
		return -1
	}
	return took[len(took)/2]
}

// ran returns how long a job that has ended was running.
func (e *entry) ran() time.Duration {
	return cmp.Or(time.Duration(e.Outcome.Wall*float64(time.Second)), max(e.Outcome.At.Sub(e.Up), 0))
}

// useLocked returns what a user's jobs keep and have used.
func (m *Manager) useLocked(o spawner.Principal) spawner.Use {
	a := m.sched.Allowance(o)
	hours, window := m.sched.GPUHours(o, time.Now())
	return spawner.Use{
		Stored: m.files.Usage(o).Bytes, Store: a.Storage, GPUHours: hours, GPUMost: a.GPUHours, Window: window,
	}
}

// mostKept is of how many jobs and scans Usage tells.
const mostKept = 200

// Usage returns what the caller's jobs keep, and what she has used.
func (m *Manager) Usage(_ context.Context, c spawner.Caller) (spawner.Usage, error) {
	if c.User == "" {
		return spawner.Usage{}, errs.New(errs.Forbidden, "only users have jobs")
	}
	o := c.Principal()
	m.learn(o)
	m.mu.RLock()
	defer m.mu.RUnlock()
	u := spawner.Usage{Use: m.useLocked(o), Inputs: m.files.Usage(o).Unused, Kept: []spawner.Kept{}}
	for id, jobs := range m.keepersLocked(o) {
		if kept := m.keptLocked(jobs); kept.Bytes > 0 {
			u.Kept = append(u.Kept, spawner.Kept{ID: id, Name: m.work[jobs[0]].Name, Bytes: kept.Bytes, Files: kept.Files, Expires: m.expireLocked(jobs)})
		}
	}
	slices.SortFunc(u.Kept, func(a, b spawner.Kept) int { return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.ID, b.ID)) })
	u.Kept = u.Kept[:min(len(u.Kept), mostKept)]
	return u, nil
}

// keepersLocked returns a user's jobs, those of a scan together.
func (m *Manager) keepersLocked(o spawner.Principal) map[string][]spawner.ID {
	all := map[string][]spawner.ID{}
	for id, e := range m.index.owned[o] {
		if e.Kind == spawner.Job {
			name := cmp.Or(e.Scan, string(id))
			all[name] = append(all[name], id)
		}
	}
	return all
}

// expireLocked returns when the last of some jobs is removed; zero: one goes on, or never is.
func (m *Manager) expireLocked(jobs []spawner.ID) (last time.Time) {
	for _, id := range jobs {
		at := m.expiresLocked(&m.work[id].Workload)
		if at.IsZero() {
			return at
		}
		last = clock.Latest(last, at)
	}
	return last
}
