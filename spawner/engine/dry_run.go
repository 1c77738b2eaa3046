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
	tx := m.Begin()
	defer tx.End()
	if _, err := tx.afford(w.Principal(), m.demand(r, max(1, len(r.Points)))); err != nil {
		return spawner.Plan{}, err
	}
	return spawner.Plan{Backend: w.Backend, Room: m.sched.Room(w), Typical: tx.typical(w), Use: tx.use(w.Principal())}, nil
}

// mostTypical is how many of the jobs that ended last are looked at for how long they run.
const mostTypical = 50

// typical returns how long the jobs of the owner and the name of w have run that were done last, in the middle;
// negative: there are none.
func (v View) typical(w spawner.Workload) time.Duration {
	var last []*entry // the latest first
	for _, e := range v.m.index.owned[w.Principal()] {
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

// use returns what a user's jobs keep and have used.
func (v View) use(o spawner.Principal) spawner.Use {
	a := v.m.sched.Allowance(o)
	hours, window := v.m.sched.GPUHours(o, time.Now())
	return spawner.Use{
		Stored: v.m.files.Usage(o).Bytes, Store: a.Storage, GPUHours: hours, GPUMost: a.GPUHours, Window: window,
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
	v := m.View()
	defer v.End()
	u := spawner.Usage{Use: v.use(o), Inputs: m.files.Usage(o).Unused, Kept: []spawner.Kept{}}
	for id, jobs := range v.keepers(o) {
		if kept := v.kept(jobs); kept.Bytes > 0 {
			u.Kept = append(u.Kept, spawner.Kept{ID: id, Name: m.work[jobs[0]].Name, Bytes: kept.Bytes, Files: kept.Files, Expires: v.expire(jobs)})
		}
	}
	slices.SortFunc(u.Kept, func(a, b spawner.Kept) int { return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.ID, b.ID)) })
	u.Kept = u.Kept[:min(len(u.Kept), mostKept)]
	return u, nil
}

// keepers returns a user's jobs, those of a scan together.
func (v View) keepers(o spawner.Principal) map[string][]spawner.ID {
	all := map[string][]spawner.ID{}
	for id, e := range v.m.index.owned[o] {
		if e.Kind == spawner.Job {
			name := cmp.Or(e.Scan, string(id))
			all[name] = append(all[name], id)
		}
	}
	return all
}

// expire returns when the last of some jobs is removed; zero: one goes on, or never is.
func (v View) expire(jobs []spawner.ID) (last time.Time) {
	for _, id := range jobs {
		at := v.expires(&v.m.work[id].Workload)
		if at.IsZero() {
			return at
		}
		last = clock.Latest(last, at)
	}
	return last
}
