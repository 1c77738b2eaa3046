package engine

import (
	"fmt"
	"time"

	"slipway/internal/errs"
	"slipway/spawner"
)

// books are what is known of users: what their jobs may have, and what they have had. The Manager's lock guards them.
type books struct {
	shares     shares
	hours      hours
	allowances map[spawner.Principal]spawner.Allowance // of those who have jobs
	unsaved    map[spawner.Principal]bool              // of whom something has been counted that is not saved
	refused    map[string]int                          // how many jobs were, by reason
}

func newBooks(half time.Duration) books {
	return books{
		shares: newShares(half), hours: newHours(), allowances: map[spawner.Principal]spawner.Allowance{}, unsaved: map[spawner.Principal]bool{}, refused: map[string]int{refusedWaiting: 0, refusedStorage: 0, refusedGPUHours: 0},
	}
}

// Reasons for which jobs are refused though they could run, as metrics name them.
const (
	refusedWaiting  = "waiting"
	refusedStorage  = "storage"
	refusedGPUHours = "gpu_hours"
)

// learn finds out what the jobs of users may have. While that is not surely known, what was known before counts.
func (m *Manager) learn(owners ...spawner.Principal) {
	if m.cfg.Allowance == nil {
		return
	}
	for _, o := range owners {
		a, sure := m.cfg.Allowance(o.Hub, o.User)
		m.mu.Lock()
		if _, known := m.allowances[o]; sure || !known {
			m.allowances[o] = a
		}
		m.mu.Unlock()
	}
}

// relearn does so again for all who have jobs.
func (m *Manager) relearn() {
	m.mu.RLock()
	var owners []spawner.Principal
	for o := range m.index.jobs {
		owners = append(owners, o)
	}
	m.mu.RUnlock()
	m.learn(owners...)
}

// fullLocked says in words why a user may have no more jobs running now; empty when she may.
func (m *Manager) fullLocked(c client) string {
	most, have := m.allowances[c.of].Running, m.ledger.jobs[c.of]
	if !c.jobs || most == 0 || have < most {
		return ""
	}
	return fmt.Sprintf("%d of the %d jobs that you may have running at once do", have, most)
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

// affordLocked refuses jobs where their owner would have too much with them, and gives the reason in a word.
func (m *Manager) affordLocked(o spawner.Principal, d demand) (string, error) {
	a := m.allowances[o]
	if have := m.index.jobs[o]; a.Waiting > 0 && d.jobs > 0 && have+d.jobs > a.Waiting {
		return refusedWaiting, errs.New(errs.OverQuota, "%d of your jobs wait or run, and with %d more they would be more than the %d that you may have at once", have, d.jobs, a.Waiting).
			With("wait until some have ended, or cancel some: `slipway jobs` lists them")
	}
	if have := m.diskUsage.of(o).bytes; a.Storage > 0 && have+d.bytes > a.Storage {
		return refusedStorage, overStorage(have, d.bytes, a.Storage)
	}
	if m.recountLocked(o, time.Now()); d.gpu && a.GPUHours > 0 && m.hours.sum[o] >= a.GPUHours {
		return refusedGPUHours, errs.New(errs.OverQuota, "%s", m.whySpentLocked(o)).With("ask then, or for no GPU; `slipway jobs du` shows what you have used")
	}
	return "", nil
}

// afford refuses jobs where their owner would have too much with them.
func (m *Manager) afford(o spawner.Principal, d demand) error {
	m.learn(o)
	m.mu.Lock()
	defer m.mu.Unlock()
	why, err := m.affordLocked(o, d)
	if err != nil {
		m.refused[why]++
	}
	return err
}
