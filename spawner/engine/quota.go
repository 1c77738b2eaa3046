package engine

import (
	"slipway/spawner"
	"slipway/spawner/jobfiles"
	"slipway/spawner/sched"
)

// learn finds out what the jobs of users may have. While that is not surely known, what was known before counts.
func (m *Manager) learn(owners ...spawner.Principal) {
	if m.cfg.Allowance == nil {
		return
	}
	for _, o := range owners {
		a, sure := m.cfg.Allowance(o.Hub, o.User)
		tx := m.Begin()
		m.sched.Allow(o, a, sure)
		tx.End()
	}
}

// relearn does so again for all who have jobs.
func (m *Manager) relearn() {
	v := m.View()
	owners := m.sched.Users()
	v.End()
	m.learn(owners...)
}

// demand is what jobs that are asked for together want of what their owner may have.
type demand struct {
	jobs  int
	bytes int64 // of input files
	gpu   bool  // of this host
}

func (m *Manager) demand(r submission, jobs int) demand {
	d := demand{jobs: jobs, gpu: !r.GPU.None() && !m.remote(r.Backend)}
	for _, content := range r.Files {
		d.bytes += int64(len(content))
	}
	return d
}

// afford refuses jobs where their owner would have too much with them, and returns the reason in a word too.
func (v View) afford(o spawner.Principal, d demand) (string, error) {
	if why, err := v.m.sched.Afford(o, d.jobs, d.gpu); err != nil {
		return why, err
	}
	most, have := v.m.sched.Allowance(o).Storage, v.m.files.Usage(o).Bytes
	if most > 0 && have+d.bytes > most {
		return sched.RefusedStorage, jobfiles.OverQuota(have, d.bytes, most)
	}
	return "", nil
}

// afford refuses jobs where their owner would have too much with them.
func (m *Manager) afford(o spawner.Principal, d demand) error {
	m.learn(o)
	tx := m.Begin()
	defer tx.End()
	why, err := tx.afford(o, d)
	if err != nil {
		m.refused[why]++
	}
	return err
}
