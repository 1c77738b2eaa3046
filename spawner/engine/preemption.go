package engine

import (
	"context"
	"fmt"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/clock"
	"slipway/internal/gpu"
	"slipway/spawner"
	"slipway/spawner/culling"
)

// Lend is the policy of lending idle slices of sessions to jobs.
type Lend struct {
	On     bool
	After  time.Duration // for how long nothing went on in the session, and on its slice
	Recall time.Duration // between telling a job to end and killing it
	// Idle is called under the engine's lock and must not call the engine. It says since when nothing has run on the
	// slice of a workload, and that a job would find its memory free. False: it is not so, or nobody can say.
	Idle func(holder string, s gpu.Slice) (since time.Time, idle bool)
}

// callBackLocked has the slice of a session come back to it: its user is there again. The job that borrowed it goes
// back in line.
func (m *Manager) callBackLocked(ctx context.Context, session *entry) {
	if session.Slice == nil {
		return
	}
	job := m.work[m.sched.Borrower(session.ID)]
	if job == nil || job.Phase == spawner.Stopping || appOf(*job) == control.Exited {
		return
	}
	m.log.Info("recalling a lent slice", "session", session.ID, "job", job.ID)
	m.noteLocked(session, spawner.Event{Percent: -1, Message: "Your slice of the GPU was lent to a job while you were away, and is called back"})
	if err := m.recallSliceLocked(ctx, job); err != nil {
		m.log.Warn("cannot recall a lent slice; will be repeated", "session", session.ID, "job", job.ID, "err", err)
		m.queue.AddAfter(job.ID, retryAfter)
	}
}

func (m *Manager) recallSliceLocked(ctx context.Context, job *entry) error {
	why := fmt.Sprintf("The owner of its slice of the GPU is back: it has %s to end, and goes back in line", m.cfg.Lend.Recall)
	return m.moveLocked(ctx, job, why, nil)
}

// recall repeats what callBackLocked could not save.
func (m *Manager) recall(ctx context.Context, e entry) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.work[e.ID]
	if now == nil || now.Rev != e.Rev {
		return nil
	}
	return m.recallSliceLocked(ctx, now)
}

// lendsLocked reports whether a session's slice can be lent now: it runs, its agent was heard and says that nobody has
// worked in it of late, and its slice idles. Only a slice of its own hardware is lent: on any other a job would disturb
// third ones.
func (m *Manager) lendsLocked(id spawner.ID) bool {
	e := m.work[id]
	if e == nil || e.Kind == spawner.Job || e.Phase != spawner.Running || e.Want != spawner.WantRunning || e.Slice.Tier != gpu.Hardware {
		return false
	}
	now := time.Now()
	if quiet := now.Sub(clock.Latest(e.Up, e.Visited, e.Active)); quiet < m.cfg.Lend.After || now.Sub(e.pulse.Looked) > culling.FreshLook {
		return false
	}
	since, idle := m.cfg.Lend.Idle(string(e.ID), *e.Slice)
	return idle && now.Sub(since) >= m.cfg.Lend.After
}

// recalled reports whether something has gone on in the session whose slice a job has, since it has it.
func (m *Manager) recalled(job entry) bool {
	if job.Lender == "" {
		return false
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	since, borrowed := m.sched.BorrowedSince(job.ID)
	session := m.work[job.Lender]
	return borrowed && session != nil && session.Active.After(since)
}
