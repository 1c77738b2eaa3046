package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/clock"
	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/culling"
)

const (
	lentLook  = 5 * time.Second // the same, while its slice is lent
	saveEvery = 5 * time.Minute // how much of what is known of activity a killed service may lose
	askTime   = 10 * time.Second
)

// takePulse asks a session's agent from time to time what goes on in it. The first question comes at a random moment,
// so that the sessions of a restarted service are not asked all at once.
func (m *Manager) takePulse(ctx context.Context, id spawner.ID) {
	for clock.Sleep(ctx, rand.N(culling.LookEvery)); ctx.Err() == nil; clock.Sleep(ctx, m.lookAfter(id)) {
		m.feelPulse(ctx, id)
	}
}

// feelPulse is apart from the pauses: a goroutine that only waits is not to have a workload on its stack.
func (m *Manager) feelPulse(ctx context.Context, id spawner.ID) {
	e, ok := m.snapshot(id)
	if !ok || e.Phase != spawner.Running {
		return
	}
	asked := time.Now()
	a, err := m.askActivity(ctx, id)
	if err != nil {
		m.log.Debug("a session's agent does not tell what goes on", "id", id, "err", err)
		m.miss(id, asked)
		return
	}
	m.feel(ctx, id, a)
	m.kinds.ask(e.Kind, func(k Kind) { k.Left(ctx, id, a.Left) })
}

// lookAfter says when to ask a session's agent again: soon while its slice of a GPU is lent, for its user is to have it
// back as soon as she works again.
func (m *Manager) lookAfter(id spawner.ID) time.Duration {
	v := m.View()
	defer v.End()
	if m.sched.Borrower(id) != "" {
		return lentLook
	}
	return culling.LookEvery
}

func (m *Manager) askActivity(ctx context.Context, id spawner.ID) (control.Activity, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	return m.cfg.Agents.Agent(id).Activity(ctx)
}

// miss notes that an agent has not answered what it was asked.
func (m *Manager) miss(id spawner.ID, asked time.Time) {
	tx := m.Begin()
	defer tx.End()
	if e := m.work[id]; e != nil && e.Pulse.Mute.IsZero() {
		e.Pulse.Mute = asked
	}
}

// feel notes what an agent tells. A Jupyter Server that could not be asked leaves it unknown whether somebody works in
// it.
func (m *Manager) feel(ctx context.Context, id spawner.ID, a control.Activity) {
	tx := m.Begin()
	defer tx.End()
	e := m.work[id]
	if e == nil || e.Phase != spawner.Running {
		return
	}
	now := time.Now()
	e.Pulse.Mute = time.Time{}
	m.kinds.ask(e.Kind, func(k Kind) { k.Active(tx, e, a) })
	tx.acted(ctx, e, e.Pulse.ActiveAt(a, e.Spec.Life, now))
	if a.Asked || e.Kind != spawner.Lab && e.Kind != spawner.Kernel {
		e.Pulse.Looked, e.Pulse.CPU = now, a.CPU
	}
	if p := e.prospect(now); !p.At.IsZero() && !now.Before(p.At.Add(-p.Warning)) {
		m.queue.Add(id)
	}
}

// acted notes that something went on in a session.
func (tx Tx) acted(ctx context.Context, e *Entry, at time.Time) {
	if !at.After(e.Active) {
		return
	}
	e.Active = at
	tx.callBack(ctx, e)
	if at.Sub(e.Pulse.Saved) >= saveEvery {
		tx.SaveActivity(ctx, e, at)
	}
}

// SaveActivity saves what memory has already: who is in a session is there also when the disk is full.
func (tx Tx) SaveActivity(ctx context.Context, e *Entry, now time.Time) {
	e.Pulse.Saved = now
	if err := tx.Change(ctx, e, func(*Entry) {}); err != nil {
		tx.m.log.Warn("cannot save that a session is used", "id", e.ID, "err", err)
	}
}

// Visit notes that somebody has sent a request to a session; acted says that it was to change something, as saving a
// file does. That a page is open and asks for news is no activity. Of a kernel that is not up yet it is noted that
// somebody asks for it.
func (m *Manager) Visit(id spawner.ID, acted bool) {
	now := time.Now()
	if !m.isNews(id, acted, now) {
		return // as nearly every visit is: it must not wait until others have saved
	}
	tx := m.Begin()
	defer tx.End()
	e := m.work[id]
	switch {
	case e == nil:
		return
	case e.Phase != spawner.Running:
		e.Pulse.Asked = now
		return
	}
	first := e.Visited.IsZero()
	if first {
		e.Visited, e.Pulse.Saved = now, now
	}
	if acted {
		tx.acted(context.Background(), e, now)
	}
	if first {
		tx.SaveActivity(context.Background(), e, now)
	}
}

// visitGrain is how exactly it is known when somebody last did something in a session.
const visitGrain = 10 * time.Second

// isNews reports whether a visit says more of a session than is known.
func (m *Manager) isNews(id spawner.ID, acted bool, now time.Time) bool {
	v := m.View()
	defer v.End()
	e := m.work[id]
	if e == nil || e.Phase != spawner.Running {
		return e != nil && e.Kind == spawner.Kernel && now.Sub(e.Pulse.Asked) > visitGrain
	}
	return e.Visited.IsZero() || acted && now.Sub(e.Active) > visitGrain
}

// Keep puts the stop of a session that idles off: it runs on until d from now, at most Life.MaxKeep, whatever goes on
// in it. Its maximal age stays.
func (m *Manager) Keep(ctx context.Context, c spawner.Caller, id spawner.ID, d time.Duration) (spawner.Workload, error) {
	tx := m.Begin()
	w, err := tx.keep(ctx, c, id, d)
	tx.End()
	return m.Vouch(ctx, w, err)
}

func (tx Tx) keep(ctx context.Context, c spawner.Caller, id spawner.ID, d time.Duration) (spawner.Workload, error) {
	e, err := tx.Find(c, id)
	if err != nil {
		return spawner.Workload{}, err
	}
	most := e.Spec.Life.MaxKeep
	switch {
	case e.Kind == spawner.Job:
		return spawner.Workload{}, errs.New(errs.Invalid, "%s is a job: it runs until it is done", id)
	case e.Phase != spawner.Running || e.Want != spawner.WantRunning:
		return spawner.Workload{}, errs.New(errs.Conflict, "session %s is %s", id, e.Phase).With("start it first")
	case most == 0:
		return spawner.Workload{}, errs.New(errs.Forbidden, "sessions of profile %s cannot be kept while they idle", e.Spec.Profile)
	case d <= 0 || d > most:
		return spawner.Workload{}, errs.Bad("for", d, fmt.Sprintf("a time such as 4h, at most %s", most))
	}
	err = tx.Change(ctx, e, func(e *Entry) { e.KeepUntil, e.Pulse.Warned = time.Now().Add(d), time.Time{} })
	return e.Workload, err
}

// Prospect says when and why a session will be stopped if nothing goes on in it; the zero Prospect for one that does
// not run.
func (m *Manager) Prospect(w spawner.Workload) spawner.Prospect {
	v := m.View()
	defer v.End()
	e := m.work[w.ID]
	if e == nil || e.Phase != spawner.Running {
		return spawner.Prospect{}
	}
	return e.prospect(time.Now())
}

// warn tells a session's user that it will be stopped soon, once, and has the session looked at again when its time has
// come.
func (m *Manager) warn(ctx context.Context, e Entry) {
	if e.Phase != spawner.Running {
		return
	}
	now := time.Now()
	p := e.prospect(now)
	if p.At.IsZero() {
		return
	}
	tell := p.At.Add(-p.Warning)
	switch {
	case now.Before(tell):
		m.markWarned(e.ID, time.Time{}, time.Time{})
		m.queue.AddAfter(e.ID, tell.Sub(now)+time.Millisecond)
		return
	case p.Known && !culling.Unopened(e.Workload) && !e.Pulse.ToldOf(p):
		m.markWarned(e.ID, now, clock.Latest(p.At, now.Add(culling.LeastWarning(p))))
		m.notify(ctx, e, p)
	}
	if p.Known {
		m.queue.AddAfter(e.ID, max(p.At.Sub(now), lookAgain, culling.LeastWarning(p)-now.Sub(e.Pulse.Warned))+time.Millisecond)
	}
}

func (m *Manager) markWarned(id spawner.ID, at, stop time.Time) {
	tx := m.Begin()
	defer tx.End()
	if e := m.work[id]; e != nil {
		e.Pulse.Warned, e.Pulse.Stop = at, stop
	}
}

// notify shows the coming stop on the session's terminals. JupyterLab asks for it by itself.
func (m *Manager) notify(ctx context.Context, e Entry, p spawner.Prospect) {
	left := max(time.Until(p.At), culling.LeastWarning(p))
	text := fmt.Sprintf("Slipway will stop this session in %s: %s. %s", culling.Words(left), p.Why, culling.Advice(p, e.Kind))
	if e.Kind == spawner.Kernel { // its agent says who tells it
		text = fmt.Sprintf("This kernel will be stopped in %s: %s. %s", culling.Words(left), p.Why, culling.Advice(p, e.Kind))
	}
	m.log.Info("session warned of its stop", "id", e.ID, "owner", e.Owner, "why", p.Why)
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	if err := m.cfg.Agents.Agent(e.ID).Notify(ctx, text); err != nil {
		m.log.Debug("a session cannot be told of its stop", "id", e.ID, "err", err)
	}
}

// expired is the outcome of a session whose time was up.
func (m *Manager) expired(e Entry) spawner.Outcome {
	if a := e.overrun(); a != nil {
		return spawner.Outcome{Expired: true, Reason: "stopped by Slipway: " + a.Message, Remedy: a.Remedy}
	}
	p := e.prospect(time.Now())
	remedy := "start it again: its changes are kept"
	if e.Kind == spawner.Kernel {
		remedy = another
	}
	return spawner.Outcome{Expired: true, Reason: "stopped by Slipway: " + p.Why, Remedy: remedy}
}

// LastActive returns the running sessions of a hub in which something went on or that somebody has opened.
func (m *Manager) LastActive(hub string) []spawner.ActiveSession {
	v := m.View()
	defer v.End()
	var list []spawner.ActiveSession
	for _, e := range m.work {
		if at := clock.Latest(e.Visited, e.Active); e.Hub == hub && e.Phase == spawner.Running && e.Kind.HubServer() && !at.IsZero() {
			list = append(list, spawner.ActiveSession{User: e.Owner, Name: e.Name, Active: at})
		}
	}
	return list
}

// prospect judges a running session by what is known of it at now.
func (e *Entry) prospect(now time.Time) spawner.Prospect {
	return culling.Prospect(e.Workload, e.Pulse.Looked, now)
}

// due reports whether a running session is to be stopped now.
func (e *Entry) due(now time.Time) bool {
	return e.overrun() != nil || e.Pulse.Due(e.prospect(now), e.Workload, now)
}
