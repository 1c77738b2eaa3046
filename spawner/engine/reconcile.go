package engine

import (
	"context"
	"time"

	"slipway/spawner"
	"slipway/spawner/lifecycle"
	"slipway/spawner/place"
	"slipway/spawner/sched"
)

// retryAfter is how long the Manager waits before it repeats what did not work.
const retryAfter = 2 * time.Second

// reconcile looks at a workload and does the next thing for it. Every change of the record brings it back, so one step
// a call is enough.
func (m *Manager) reconcile(ctx context.Context, id spawner.ID) {
	e, ok := m.Snapshot(id)
	if !ok {
		return
	}
	m.starter.announceStart(ctx, e)
	o := m.observe(ctx, e.Workload)
	if ctx.Err() != nil {
		return
	}
	if e, ok = m.sight(ctx, e, o); !ok {
		return
	}
	action := m.input(e, o).Next()
	if err := m.act(ctx, e, action, o); err != nil {
		m.log.Warn("step did not work, will be repeated", "id", id, "action", action, "err", err)
		m.queue.AddAfter(id, retryAfter)
	} else if action == lifecycle.Wait {
		m.listen(ctx, e)
		// then observe has seen to the next look, and no time that is up makes it sooner
		if o.Existence != spawner.Unknown {
			m.remind(e)
			if waits := m.Kind(e.Kind).Waits; waits != nil {
				waits(ctx, e)
			}
		}
	}
}

// Snapshot copies an entry, so that it can be thought about without the lock.
func (r *Records) Snapshot(id spawner.ID) (Entry, bool) {
	v := r.View()
	defer v.End()
	e := r.work[id]
	if e == nil {
		return Entry{}, false
	}
	return *e, true
}

// observe asks the backend. A workload that waits for room, and holds nothing, needs no look.
func (m *Manager) observe(ctx context.Context, w spawner.Workload) spawner.Observation {
	if w.Phase == spawner.Pending {
		return spawner.Observation{Existence: spawner.Absent}
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	o, err := m.Backends.Named(w.Backend).Observe(ctx, w.ID)
	if err != nil {
		// resync warns, once for all
		m.log.Debug("cannot look at workload", "id", w.ID, "backend", w.Backend, "err", err)
		again := retryAfter
		if w.Settled() { // nobody waits for it, and there may be thousands
			again = max(again, m.cfg.Interval)
		}
		m.queue.AddAfter(w.ID, again)
		m.Relay(w.ID, place.Silent(m.At(w.Backend)), 0)
		return spawner.Observation{Existence: spawner.Unknown}
	}
	return o
}

// input returns what is decided upon in the phase of a workload.
func (m *Manager) input(e Entry, o spawner.Observation) lifecycle.Input {
	limit, ok := m.limit(e)
	overdue := ok && !o.Returning && time.Since(m.phaseBegan(e)) >= limit
	seen, role, remote := o.Existence, m.role(&e), e.Remote
	if remote && o.Evicted && seen == spawner.Exited {
		seen = lifecycle.Evicted
	}
	switch e.Phase {
	case spawner.Pending:
		return lifecycle.Pending{
			Want: e.Want, Standby: e.Standby != "", Moving: e.Moving,
			Dependency: dependency(m.prerequisites(&e.Workload)), Held: e.Held,
			Backoff: e.backoff(overdue), Armed: e.armed(),
		}
	case spawner.Leased:
		return lifecycle.Leased{
			Want: e.Want, Seen: seen, Role: role, Remote: remote, Recalled: m.recalled(e), Saved: e.Saved,
			Armed: e.armed(),
		}
	case spawner.Starting, spawner.Booting:
		return lifecycle.Starting{
			Want: e.Want, Seen: seen, Role: role, App: appOf(e), Launched: e.Phase == spawner.Booting, Remote: remote,
			Armed:   e.armed(),
			Started: e.Begun, Overdue: overdue,
			Fault: e.Status.Fault != "" && m.starter.launches.SelfTestOf(e.Workload) != nil, Recalled: m.recalled(e),
			Leaves: !e.quit.IsZero(),
		}
	case spawner.Running:
		return lifecycle.Running{
			Want: e.Want, Seen: seen, Role: role, App: appOf(e), Remote: remote, Overdue: overdue,
			Recalled: m.recalled(e),
			Leaves:   !e.quit.IsZero(), Expired: m.Kind(e.Kind).due(e),
		}
	case spawner.Stopping:
		return lifecycle.Stopping{
			Want: e.Want, Seen: seen, Role: role, Purpose: e.purpose(), Remote: remote, Saved: e.Saved,
			Unkept: e.Unkept != "",
			Unseen: remote && seen == spawner.Unknown && m.unseen(e),
		}
	case spawner.Stopped:
		return lifecycle.Stopped{Want: e.Want, Seen: seen, Role: role, Overdue: overdue}
	default:
		return lifecycle.Removing{Seen: seen}
	}
}

// role returns what a workload is to the state machine.
func (m *Manager) role(e *Entry) lifecycle.Role {
	switch {
	case e.Standby != "" && e.prepared:
		return lifecycle.Prewarmed
	case e.Standby != "":
		return lifecycle.Standby
	default:
		return m.Kind(e.Kind).Role
	}
}

// armed reports whether what the app needs is at hand.
func (e *Entry) armed() bool { return e.Kind.Batch() || e.Secrets != nil }

// purpose returns what a workload is being ended for.
func (e *Entry) purpose() lifecycle.Purpose {
	switch {
	case e.Withdrawing():
		return lifecycle.ToWithdraw
	case lifecycle.WillRetry(e.Workload):
		return lifecycle.ToRetry
	case e.Moving:
		return lifecycle.ToRequeue
	default:
		return lifecycle.ToEnd
	}
}

// backoff returns whether a job waits before its next try. over says that its pause is.
func (e *Entry) backoff(over bool) lifecycle.Backoff {
	switch {
	case e.BackingOff && over:
		return lifecycle.BackoffEnded
	case e.BackingOff:
		return lifecycle.InBackoff
	default:
		return lifecycle.NoBackoff
	}
}

func dependency(p sched.Prerequisites) lifecycle.Dependency {
	switch {
	case p.Lost:
		return lifecycle.LostDependency
	case p.Met:
		return lifecycle.MetDependency
	case p.Open:
		return lifecycle.OpenDependency
	default:
		return lifecycle.NoDependency
	}
}

// remind asks for another look when the phase's time is up. Who waits all the same waits for something else.
func (m *Manager) remind(e Entry) {
	limit, ok := m.limit(e)
	if !ok {
		return
	}
	left := time.Until(m.phaseBegan(e).Add(limit))
	if left < 0 {
		left = m.cfg.Interval
	}
	m.queue.AddAfter(e.ID, left+time.Millisecond)
}
