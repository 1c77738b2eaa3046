package jobs

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"slipway/internal/clock"
	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/engine"
)

// Plan says what would become of a job, and refuses what SubmitJob would refuse as it is asked for, whatever
// environment it is to run in. It does nothing else: it is asked before a session is frozen for a job that could never
// run.
func (j *Jobs) Plan(ctx context.Context, c spawner.Caller, req spawner.JobRequest) (spawner.Plan, error) {
	r, err := j.admissible(ctx, c, submission{JobRequest: req})
	if err != nil {
		return spawner.Plan{}, err
	}
	if err := errors.Join(j.checkJob(ctx, c, r), j.checkPoints(r, r.Points)); err != nil {
		return spawner.Plan{}, err
	}
	w := j.jobOf(c, r, "")
	if err := j.engine.Judge(ctx, w); err != nil {
		return spawner.Plan{}, err
	}
	j.learn(w.Principal())
	tx := j.engine.Begin()
	defer tx.End()
	if _, err := j.affordIn(tx.View, w.Principal(), j.demand(r, max(1, len(r.Points)))); err != nil {
		return spawner.Plan{}, err
	}
	return spawner.Plan{
		Backend: w.Backend, Room: tx.Sched().Room(w), Typical: typical(tx.Owned(w.Principal()), w),
		Use: j.use(tx.View, w.Principal()),
	}, nil
}

// mostTypical is how many of the jobs that ended last are looked at for how long they run.
const mostTypical = 50

// typical returns how long those of some workloads have run that are jobs of the name of w and were done last, in the
// middle; negative: there are none.
func typical(own map[spawner.ID]*engine.Entry, w spawner.Workload) time.Duration {
	var last []*engine.Entry // the latest first
	for _, e := range own {
		if e.Kind.Batch() && e.Name == w.Name && e.Phase == spawner.Stopped && e.Outcome != nil &&
			!e.Outcome.Failed && !e.Outcome.Canceled {
			at, _ := slices.BinarySearchFunc(
				last, e, func(a, b *engine.Entry) int { return b.Outcome.At.Compare(a.Outcome.At) },
			)
			last = slices.Insert(last, at, e)
			last = last[:min(len(last), mostTypical)]
		}
	}
	var took []time.Duration
	for _, e := range last {
		took = append(took, ran(e))
	}
	slices.Sort(took)
	if len(took) == 0 {
		return -1
	}
	return took[len(took)/2]
}

// ran returns how long a job that has ended was running.
func ran(e *engine.Entry) time.Duration {
	return cmp.Or(time.Duration(e.Outcome.Wall*float64(time.Second)), max(e.Outcome.At.Sub(e.Up), 0))
}

// use returns what a user's jobs keep and have used.
func (j *Jobs) use(v engine.View, o spawner.Principal) spawner.Use {
	a := v.Sched().Allowance(o)
	hours, window := v.Sched().GPUHours(o, time.Now())
	return spawner.Use{
		Stored: j.engine.JobFiles().Usage(o).Bytes, Store: a.Storage, GPUHours: hours, GPUMost: a.GPUHours,
		Window: window,
	}
}

// mostKept is of how many jobs and scans Usage tells.
const mostKept = 200

// Usage returns what the caller's jobs keep, and what she has used.
func (j *Jobs) Usage(_ context.Context, c spawner.Caller) (spawner.Usage, error) {
	if c.User == "" {
		return spawner.Usage{}, errs.New(errs.Forbidden, "only users have jobs")
	}
	o := c.Principal()
	j.learn(o)
	v := j.engine.View()
	defer v.End()
	u := spawner.Usage{Use: j.use(v, o), Inputs: j.engine.JobFiles().Usage(o).Unused, Kept: []spawner.Kept{}}
	for id, jobs := range j.keepers(v, o) {
		if kept := j.kept(v, jobs); kept.Bytes > 0 {
			u.Kept = append(u.Kept, spawner.Kept{
				ID: id, Name: v.Entry(jobs[0]).Name, Bytes: kept.Bytes, Files: kept.Files, Expires: j.lastExpiry(v, jobs),
			})
		}
	}
	slices.SortFunc(
		u.Kept, func(a, b spawner.Kept) int { return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.ID, b.ID)) },
	)
	u.Kept = u.Kept[:min(len(u.Kept), mostKept)]
	return u, nil
}

// keepers returns a user's jobs, those of a scan together.
func (j *Jobs) keepers(v engine.View, o spawner.Principal) map[string][]spawner.ID {
	all := map[string][]spawner.ID{}
	for id, e := range v.OwnedOfKind(o, spawner.Job) {
		name := cmp.Or(e.Scan, string(id))
		all[name] = append(all[name], id)
	}
	return all
}

// lastExpiry returns when the last of some jobs is removed; zero: one goes on, or never is.
func (j *Jobs) lastExpiry(v engine.View, jobs []spawner.ID) (last time.Time) {
	for _, id := range jobs {
		at := j.expires(v, &v.Entry(id).Workload)
		if at.IsZero() {
			return at
		}
		last = clock.Latest(last, at)
	}
	return last
}
