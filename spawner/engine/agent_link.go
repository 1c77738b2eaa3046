package engine

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"slipway/internal/agent/control"
	"slipway/internal/clock"
	"slipway/internal/errs"
	"slipway/spawner"
)

// linkChange says that the link to a workload's agent has come up or gone down.
type linkChange struct {
	id spawner.ID
	up bool
}

// links say which links to agents have come up or gone down.
type links struct{ changes chan linkChange }

// LinkChanged tells that the link to a workload's agent has come up or gone down.
func (l links) LinkChanged(ctx context.Context, id spawner.ID, up bool) {
	select {
	case l.changes <- linkChange{id, up}:
	case <-ctx.Done():
	}
}

// follow attends to every agent whose link is up: attend is called for each, and its context ends when the link goes
// down or comes up anew. down is called for each that goes down.
func (l links) follow(ctx context.Context, attend, down func(ctx context.Context, id spawner.ID)) {
	g, ctx := errgroup.WithContext(ctx)
	ends := map[spawner.ID]context.CancelFunc{}
	for {
		select {
		case <-ctx.Done():
			_ = g.Wait() // attend returns no error
			return
		case c := <-l.changes:
			if end := ends[c.id]; end != nil {
				end()
				delete(ends, c.id)
			}
			if !c.up {
				down(ctx, c.id)
				continue
			}
			own, end := context.WithCancel(ctx)
			ends[c.id] = end
			g.Go(func() error { attend(own, c.id); return nil })
		}
	}
}

// followAgent listens to an agent until its link goes down: its word on the app, and a job's output as it comes.
func (m *Manager) followAgent(ctx context.Context, id spawner.ID) {
	g, ctx := errgroup.WithContext(ctx)
	if follow := m.Kind(m.kindOf(id)).Follow; follow != nil {
		g.Go(func() error { follow(ctx, id); return nil })
	}
	g.Go(func() error {
		for ctx.Err() == nil {
			err := m.cfg.Agents.Agent(id).Watch(ctx, func(s control.Status) error { m.hear(ctx, id, s); return nil })
			if ctx.Err() == nil {
				m.log.Debug("agent's watch ended", "id", id, "err", err)
				clock.Sleep(ctx, time.Second)
			}
		}
		return nil
	})
	_ = g.Wait() // the functions above return no error
}

// hear notes an agent's word. What comes late, when the link has gone down and ctx with it, would hide what a newer
// link says.
func (m *Manager) hear(ctx context.Context, id spawner.ID, s control.Status) {
	if then := m.noteWord(ctx, id, s); then != nil {
		then(ctx)
	}
}

func (m *Manager) noteWord(ctx context.Context, id spawner.ID, s control.Status) (then func(context.Context)) {
	tx := m.Begin()
	defer tx.End()
	if e := m.work[id]; e != nil && ctx.Err() == nil {
		e.Status, e.Pulse.Mute = s, time.Time{}
		if e.Remote && (e.Kind.Batch() || s.Leaving) && appOf(*e) == control.Exited && e.quit.IsZero() {
			e.quit = time.Now()
		}
		if heard := m.Kind(e.Kind).Heard; heard != nil {
			then = heard(tx, e, s)
		}
		tx.Announce(e)
		m.queue.Add(id)
	}
	return then
}

// linkSocket is where the service listens for an agent, in the link directory: the base of control.LinkSocket.
const linkSocket = "service.sock"

// kindOf returns the kind of a workload; empty: there is none.
func (r *Records) kindOf(id spawner.ID) spawner.Kind {
	v := r.View()
	defer v.End()
	if e := v.Entry(id); e != nil {
		return e.Kind
	}
	return ""
}

// How long fetching what an app left may be repeated: while somebody wants it, and when its owner has stopped it.
const (
	collectPatience = 5 * time.Minute
	partingPatience = 15 * time.Second
)

// collect fetches what an app that has exited leaves: its last lines, a job's whole log and files, and how it ended.
func (m *Manager) collect(ctx context.Context, e Entry, o spawner.Observation) error {
	deadline := m.collectUntil(e)
	if !cameBack(e, o) { // that stays
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	from, status, err := m.source(ctx, e, o)
	switch {
	case errs.Is(err, errs.NotFound):
		return m.fail(ctx, e, m.whyFailed(e, o))
	case err != nil:
		m.Relay(e.ID, "What it has left cannot be fetched yet; trying again. If this lasts, tell your administrator", 0)
		return err
	}
	e.Status = status
	var out spawner.Outcome
	if e.Status.State == control.Exited {
		out = m.Kind(e.Kind).Exited(e, o)
	} else { // it has ended on another host without its agent
		out = m.whyFailed(e, o)
	}
	switch kept, err := m.Kind(e.Kind).Collect(ctx, e, from, deadline, &out); {
	case err != nil:
		return err
	case !kept:
		m.queue.AddAfter(e.ID, m.cfg.Interval)
		return nil
	}
	m.relieve(e.ID)
	return m.fail(ctx, e, out)
}

// collectUntil returns the time until which fetching is repeated, counted from the first try.
func (m *Manager) collectUntil(e Entry) time.Time {
	tx := m.Begin()
	defer tx.End()
	now := m.work[e.ID]
	if now == nil {
		return time.Now()
	}
	if now.Collecting.IsZero() {
		now.Collecting = time.Now()
	}
	if e.Want == spawner.WantRunning {
		return now.Collecting.Add(collectPatience)
	}
	return now.Collecting.Add(partingPatience)
}
