package engine

import (
	"slipway/spawner"
	"slipway/spawner/jobfiles"
	"slipway/spawner/sched"
)

// Needed reports whether a job, or a submission that is under way, has a bundle.
func (v View) Needed(b spawner.ID) bool { return v.r.index.bundles[b] > 0 || v.r.held[b] > 0 }

// newFiles makes the Store of the jobs' files, which asks for what the records say.
func newFiles(cfg Config, r *Records) *jobfiles.Store {
	return jobfiles.New(jobfiles.Config{
		Dir: cfg.Dir, Output: cfg.Output.Most, Room: cfg.Output.Room, HasRecord: r.knows, Owners: r.fileOwners, Logger: r.log,
		Needed: func(b spawner.ID) bool {
			v := r.View()
			defer v.End()
			return v.Needed(b)
		},
		Quota: func(o spawner.Principal) int64 {
			v := r.View()
			defer v.End()
			return r.sched.Allowance(o).Storage
		},
		Refused: func() {
			tx := r.Begin()
			defer tx.End()
			tx.CountRefused(sched.RefusedStorage)
		},
	})
}

// fileOwners returns all jobs and their bundles, and whose they are.
func (r *Records) fileOwners() (jobs, bundles map[spawner.ID]spawner.Principal) {
	v := r.View()
	defer v.End()
	jobs, bundles = map[spawner.ID]spawner.Principal{}, map[spawner.ID]spawner.Principal{}
	for id, e := range r.work {
		if e.Kind.Batch() {
			jobs[id] = e.Principal()
		}
		if e.Bundle != "" {
			bundles[e.Bundle] = e.Principal()
		}
	}
	return jobs, bundles
}
