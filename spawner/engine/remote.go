package engine

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"slipway/spawner"
	"slipway/spawner/place"
)

// mostEvictions is how often a start may lose its place before it fails.
const mostEvictions = 10

// sight notes what a look at a workload on another host has shown, and tells its owner. It reports false when that
// changed the record.
func (m *Manager) sight(ctx context.Context, e Entry, o spawner.Observation) (Entry, bool) {
	// it came and went between two looks
	late := e.Kind.Batch() && e.Host == "" && e.Phase.Active() && o.Existence == spawner.Exited
	moved := o.Host != "" && o.Host != e.Host && (o.Existence == spawner.Up || late)
	if !e.Remote || o.Existence == spawner.Unknown || e.Phase == spawner.Pending || o == e.Seen && !moved {
		return e, true
	}
	if moved {
		verb := "Runs on "
		if late {
			verb = "It ran on "
		}
		saved, err := m.Change(ctx, e, func(e *Entry) { e.Host = o.Host })
		if err == nil && saved {
			m.Relay(e.ID, verb+o.Host, 80)
		}
		if err == nil {
			return e, false
		}
		// it is known as long as the service runs
		m.log.Warn("cannot save where a workload runs", "id", e.ID, "err", err)
	}
	tx := m.Begin()
	defer tx.End()
	now := tx.Unchanged(e)
	if now == nil {
		return e, false
	}
	now.Seen = o
	if now.Phase == spawner.Starting && o.Existence.Alive() {
		tx.taken(now) // whoever asked for it, and whatever was heard of that
	}
	if o.Existence == spawner.Up && now.startedAt.IsZero() {
		now.startedAt = time.Now()
	}
	tx.tellSeen(now)
	return *now, true
}

// tellSeen tells the owner of a workload how it stands in the queue of a batch system.
func (tx Tx) tellSeen(e *Entry) {
	if !e.Seen.Existence.Alive() || e.Seen.Existence == spawner.Up || e.Phase == spawner.Stopping {
		return
	}
	if text := place.Queued(e.Seen, tx.r.backends.At(e.Backend)); e.Journal.Latest().Message != text {
		tx.Note(e, spawner.Event{Percent: 25, Message: text})
	}
}

// handleEviction has a workload that lost its place go back in line, unless that happens again and again.
func (t *terminator) handleEviction(ctx context.Context, e Entry, o spawner.Observation) error {
	tx := t.Begin()
	defer tx.End()
	now := tx.Unchanged(e)
	if now == nil {
		return nil
	}
	host := cmp.Or(o.Host, e.Host, t.backends.At(e.Backend))
	if now.Evictions >= mostEvictions {
		return tx.Finish(ctx, now, spawner.Outcome{
			Failed: true, ExitCode: 143,
			Reason: fmt.Sprintf("it was evicted %d times, last from %s", now.Evictions+1, host),
			Remedy: "ask for less time, memory or CPUs, or submit it when the pool is less busy",
		})
	}
	return tx.Requeue(ctx, now, place.Evicted(host, o.Reason, t.Kind(e.Kind).Evicted), func(e *Entry) { e.Evictions++ })
}

// partsByItself has the agent of what is ended on another host end its app and itself, so that what it leaves comes
// back. It reports false when there is nothing to wait for any more, or nothing that anybody wants, as of a kernel.
func (t *terminator) partsByItself(ctx context.Context, e Entry) bool {
	if e.Kind.Ephemeral() || e.Want == spawner.WantGone || e.Phase != spawner.Stopping || e.Saved ||
		e.Moving && e.Kind.Batch() || e.Seen.Existence != spawner.Up {
		return false
	}
	if e.Seen.Returning { // for as long as the batch system brings it
		t.queue.AddAfter(e.ID, t.interval)
		return true
	}
	waits := t.inPhase(e) < t.askFor(e)
	if !e.Asked.IsZero() {
		waits = time.Since(e.Asked) < t.wayBack(e) || waits && e.parting != e.Run()
	}
	if keep := t.Kind(e.Kind).CheckpointViaAgent; waits && keep != nil && keep(ctx, e) {
		t.queue.Add(e.ID)
		return true
	}
	if waits {
		t.askToEnd(ctx, e)
		t.queue.AddAfter(e.ID, time.Second)
	}
	return waits
}

// askToEnd has an agent end, until it has said that it does. That it is asked is saved before: it may end though its
// answer is lost, and what it leaves is waited for, also when the service is started again meanwhile. One that is not
// connected finds the door open.
func (t *terminator) askToEnd(ctx context.Context, e Entry) {
	if e.Status.State == "" {
		if err := t.agents.Expect(e.ID); err != nil {
			t.log.Error("cannot listen for an agent that is to end", "id", e.ID, "err", err)
		}
		return
	}
	if e.parting == e.Run() {
		return
	}
	if e.Asked.IsZero() {
		saved, err := t.Change(ctx, e, func(e *Entry) { e.Asked = time.Now() })
		if err != nil {
			t.log.Warn("cannot save that an agent is asked to end", "id", e.ID, "err", err)
		}
		if err != nil || !saved {
			return
		}
	}
	ctx, cancel := context.WithTimeout(ctx, t.limits.Grace+AgentPatience)
	defer cancel()
	if err := t.agents.Agent(e.ID).End(ctx); err != nil {
		t.log.Debug("an agent does not say that it ends", "id", e.ID, "err", err)
		return
	}
	tx := t.Begin()
	defer tx.End()
	if now := t.work[e.ID]; now != nil {
		now.parting = e.Run()
	}
}
