package engine

import (
	"slipway/spawner"
	"slipway/spawner/jobfiles"
	"slipway/spawner/sched"
)

// Needed reports whether a job, or a submission that is under way, has a bundle.
func (v View) Needed(b spawner.ID) bool { return v.r.index.bundles[b] > 0 || v.r.held[b] > 0 }

// newFiles makes the Store of the jobs' files, which asks for what the records say.
func (m *Manager) newFiles() *jobfiles.Store {
	return jobfiles.New(jobfiles.Config{
		Dir: m.cfg.Dir, Output: m.cfg.Output, Room: m.cfg.Room, HasRecord: m.knows, Owners: m.fileOwners, Logger: m.log,
		Needed: func(b spawner.ID) bool {
			v := m.View()
			defer v.End()
			return v.Needed(b)
		},
		Quota: func(o spawner.Principal) int64 {
			v := m.View()
			defer v.End()
			return m.sched.Allowance(o).Storage
		},
		Refused: func() {
			tx := m.Begin()
			defer tx.End()
			tx.CountRefused(sched.RefusedStorage)
		},
	})
}

// fileOwners returns all jobs and their bundles, and whose they are.
func (m *Manager) fileOwners() (jobs, bundles map[spawner.ID]spawner.Principal) {
	v := m.View()
	defer v.End()
	jobs, bundles = map[spawner.ID]spawner.Principal{}, map[spawner.ID]spawner.Principal{}
	for id, e := range m.work {
		if e.Kind.Batch() {
			jobs[id] = e.Principal()
		}
		if e.Bundle != "" {
			bundles[e.Bundle] = e.Principal()
		}
	}
	return jobs, bundles
}
