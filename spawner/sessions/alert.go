package sessions

import (
	"context"
	"fmt"
	"slices"
	"slipway/internal/agent/control"
	"slipway/internal/units"
	"slipway/spawner"
	"slipway/spawner/catalog"
	"slipway/spawner/engine"
	"time"
)

// Alerts returns what the owner of a session is to know of its limits, the newest last.
func (s *Sessions) Alerts(w spawner.Workload) []spawner.Alert {
	v := s.engine.View()
	defer v.End()
	e := v.Entry(w.ID)
	if e == nil || e.Alerts.Launch != e.Launch || e.Phase != spawner.Running {
		return nil
	}
	return slices.Clone(e.Alerts.List)
}

// Alert notes one of a session that runs, and tells everybody in it.
func (s *Sessions) Alert(ctx context.Context, id spawner.ID, a spawner.Alert) {
	tx := s.engine.Begin()
	e := tx.Entry(id)
	if e == nil || e.Phase != spawner.Running {
		tx.End()
		return
	}
	s.alert(tx, e, a)
	tx.End()
	s.tellAlert(ctx, id, a)
}

// Overrun ends a session that has gone beyond a limit. Its changes are kept.
func (s *Sessions) Overrun(ctx context.Context, id spawner.ID, a spawner.Alert) {
	tx := s.engine.Begin()
	e := tx.Entry(id)
	if e == nil || e.Phase != spawner.Running || e.Overrun() != nil {
		tx.End()
		return
	}
	s.alert(tx, e, a)
	e.Alerts.Over = &a
	s.engine.Wake(id)
	tx.End()
	s.tellAlert(ctx, id, a)
}

func (s *Sessions) alert(tx engine.Tx, e *engine.Entry, a spawner.Alert) {
	a.At = time.Now()
	e.Alerts.Of(e.Launch).Put(a)
	tx.Note(e, spawner.Event{Percent: -1, Message: a.Message + ". " + a.Remedy})
	s.log.Warn("a session is told of its limit", "id", e.ID, "owner", e.Owner, "cause", a.Cause, "message", a.Message)
}

// tellAlert shows it on the session's terminals. JupyterLab asks for it by itself.
func (s *Sessions) tellAlert(ctx context.Context, id spawner.ID, a spawner.Alert) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	if err := s.engine.Agent(id).Notify(ctx, a.Message+". "+a.Remedy); err != nil {
		s.log.Debug("a session cannot be told of its limit", "id", id, "err", err)
	}
}

// hearMemory notes what was killed in a session for want of memory, and gives what to tell; false when there is
// nothing new. After a restart of the service an agent says again what it has said.
func (s *Sessions) hearMemory(tx engine.Tx, e *engine.Entry, word control.Status) (spawner.Alert, bool) {
	o := word.OutOfMemory
	if o == nil || word.Launch != e.Run() {
		return spawner.Alert{}, false
	}
	known := e.Alerts.Of(e.Launch)
	if o.Kills <= known.Kills {
		return spawner.Alert{}, false
	}
	killed := o.Kills - known.Kills
	known.Kills = o.Kills
	a := spawner.Alert{
		Cause: spawner.AlertMemory, Message: outOfMemory(killed, *o), Remedy: s.moreMemory(e.Spec, o.Limit),
	}
	s.alert(tx, e, a)
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
func (s *Sessions) moreMemory(spec spawner.Spec, limit int64) string {
	const anew = "Load less at a time, or stop the session and start it with more memory, and your changes are kept: "
	most, best := limit, catalog.Profile{}
	for _, p := range s.cfg.Catalogue.Profiles {
		top := max(p.Memory, p.MaxMemory)
		own := p.Name == spec.Profile
		if own && top > limit {
			return anew + fmt.Sprintf("its profile, %s, gives up to %s", p.Label(), units.MemoryWords(top))
		}
		if !own && len(p.Users)+len(p.Groups) == 0 && !p.Rescue && p.Serves(spec.Image, s.cfg.Catalogue) && top > most {
			most, best = top, p
		}
	}
	if best.Name != "" {
		return anew + fmt.Sprintf("the profile %s gives up to %s", best.Label(), units.MemoryWords(most))
	}
	return "Load less at a time: no profile here gives more memory to this session"
}
