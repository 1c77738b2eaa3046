package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/units"
	"slipway/spawner"
	"slipway/spawner/catalog"
)

// alerts are those of the present launch.
type alerts struct {
	launch string
	kills  int64          // processes that were killed for want of memory, as far as they were told
	over   *spawner.Alert // for which it is to end; nil: it may go on
	list   []spawner.Alert
}

// of returns those of a launch, empty ones when it is another.
func (a *alerts) of(launch string) *alerts {
	if a.launch != launch {
		*a = alerts{launch: launch}
	}
	return a
}

// put has an alert take the place of the one with its cause.
func (a *alerts) put(one spawner.Alert) {
	a.list = append(slices.DeleteFunc(slices.Clone(a.list), func(o spawner.Alert) bool { return o.Cause == one.Cause }), one)
}

// Alerts returns what the owner of a session is to know of its limits, the newest last.
func (m *Manager) Alerts(w spawner.Workload) []spawner.Alert {
	v := m.View()
	defer v.End()
	e := m.work[w.ID]
	if e == nil || e.alerts.launch != e.Launch || e.Phase != spawner.Running {
		return nil
	}
	return slices.Clone(e.alerts.list)
}

// Alert notes one of a session that runs, and tells everybody in it.
func (m *Manager) Alert(ctx context.Context, id spawner.ID, a spawner.Alert) {
	tx := m.Begin()
	e := m.work[id]
	if e == nil || e.Phase != spawner.Running {
		tx.End()
		return
	}
	tx.alert(e, a)
	tx.End()
	m.tellAlert(ctx, id, a)
}

// Overrun ends a session that has gone beyond a limit. Its changes are kept.
func (m *Manager) Overrun(ctx context.Context, id spawner.ID, a spawner.Alert) {
	tx := m.Begin()
	e := m.work[id]
	if e == nil || e.Phase != spawner.Running || e.overrun() != nil {
		tx.End()
		return
	}
	tx.alert(e, a)
	e.alerts.over = &a
	m.queue.Add(id)
	tx.End()
	m.tellAlert(ctx, id, a)
}

// overrun returns why a session is to end that has gone beyond a limit; nil: it has not.
func (e *Entry) overrun() *spawner.Alert {
	if e.alerts.launch != e.Launch {
		return nil
	}
	return e.alerts.over
}

func (tx Tx) alert(e *Entry, a spawner.Alert) {
	a.At = time.Now()
	e.alerts.of(e.Launch).put(a)
	tx.Note(e, spawner.Event{Percent: -1, Message: a.Message + ". " + a.Remedy})
	tx.m.log.Warn("a session is told of its limit", "id", e.ID, "owner", e.Owner, "cause", a.Cause, "message", a.Message)
}

// tellAlert shows it on the session's terminals. JupyterLab asks for it by itself.
func (m *Manager) tellAlert(ctx context.Context, id spawner.ID, a spawner.Alert) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	if err := m.cfg.Agents.Agent(id).Notify(ctx, a.Message+". "+a.Remedy); err != nil {
		m.log.Debug("a session cannot be told of its limit", "id", id, "err", err)
	}
}

// hearMemory notes what was killed in a session for want of memory, and gives what to tell; false when there is
// nothing new. After a restart of the service an agent says again what it has said.
func (tx Tx) hearMemory(e *Entry, s control.Status) (spawner.Alert, bool) {
	o := s.OutOfMemory
	if o == nil || e.Kind == spawner.Job || e.Kind == spawner.Kernel || s.Launch != e.Run() {
		return spawner.Alert{}, false
	}
	known := e.alerts.of(e.Launch)
	if o.Kills <= known.kills {
		return spawner.Alert{}, false
	}
	killed := o.Kills - known.kills
	known.kills = o.Kills
	a := spawner.Alert{Cause: spawner.AlertMemory, Message: outOfMemory(killed, *o), Remedy: tx.m.moreMemory(e.Spec, o.Limit)}
	tx.alert(e, a)
	return a, true
}

// outOfMemory says what happened, with the figures.
func outOfMemory(killed int64, o control.OutOfMemory) string {
	what, used := "a program of this session was killed", units.MemoryWords(o.Limit)
	if killed > 1 {
		what = fmt.Sprintf("%d programs of this session were killed", killed)
	}
	if o.Peak > 0 {
		used = units.MemoryWords(min(o.Peak, o.Limit))
	}
	return fmt.Sprintf("Out of memory: %s. It had %s of its %s in use", what, used, units.MemoryWords(o.Limit))
}

// moreMemory says what to choose in order to have more memory. Profiles that are not for everybody are not named.
func (m *Manager) moreMemory(spec spawner.Spec, limit int64) string {
	const anew = "Load less at a time, or stop the session and start it with more memory, and your changes are kept: "
	most, best := limit, catalog.Profile{}
	for _, p := range m.cfg.Catalogue.Profiles {
		top := max(p.Memory, p.MaxMemory)
		own := p.Name == spec.Profile
		if own && top > limit {
			return anew + fmt.Sprintf("its profile, %s, gives up to %s", p.Label(), units.MemoryWords(top))
		}
		if !own && len(p.Users)+len(p.Groups) == 0 && !p.Rescue && p.Serves(spec.Image, m.cfg.Catalogue) && top > most {
			most, best = top, p
		}
	}
	if best.Name != "" {
		return anew + fmt.Sprintf("the profile %s gives up to %s", best.Label(), units.MemoryWords(most))
	}
	return "Load less at a time: no profile here gives more memory to this session"
}
