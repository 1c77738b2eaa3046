package sessions

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
	"slipway/spawner/diagnosis"
	"slipway/spawner/engine"
)

const (
	lentLook  = 5 * time.Second // the same, while its slice is lent
	saveEvery = 5 * time.Minute // how much of what is known of activity a killed service may lose
	askTime   = 10 * time.Second
)

// takePulse asks a session's agent from time to time what goes on in it. The first question comes at a random moment,
// so that the sessions of a restarted service are not asked all at once.
func (s *Sessions) takePulse(ctx context.Context, id spawner.ID) {
	for clock.Sleep(ctx, rand.N(culling.LookEvery)); ctx.Err() == nil; clock.Sleep(ctx, s.lookAfter(id)) {
		s.feelPulse(ctx, id)
	}
}

// feelPulse is apart from the pauses: a goroutine that only waits is not to have a workload on its stack.
func (s *Sessions) feelPulse(ctx context.Context, id spawner.ID) {
	e, ok := s.engine.Snapshot(id)
	if !ok || e.Phase != spawner.Running {
		return
	}
	asked := time.Now()
	a, err := s.askActivity(ctx, id)
	if err != nil {
		s.log.Debug("a session's agent does not tell what goes on", "id", id, "err", err)
		s.miss(id, asked)
		return
	}
	s.feel(ctx, id, a)
	if left := s.engine.Kind(e.Kind).Left; left != nil {
		left(ctx, id, a.Left)
	}
}

// lookAfter says when to ask a session's agent again: soon while its slice of a GPU is lent, for its user is to have it
// back as soon as she works again.
func (s *Sessions) lookAfter(id spawner.ID) time.Duration {
	v := s.engine.View()
	defer v.End()
	if v.Sched().Borrower(id) != "" {
		return lentLook
	}
	return culling.LookEvery
}

func (s *Sessions) askActivity(ctx context.Context, id spawner.ID) (control.Activity, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	return s.engine.Agent(id).Activity(ctx)
}

// miss notes that an agent has not answered what it was asked.
func (s *Sessions) miss(id spawner.ID, asked time.Time) {
	tx := s.engine.Begin()
	defer tx.End()
	if e := tx.Entry(id); e != nil && e.Pulse.Mute.IsZero() {
		e.Pulse.Mute = asked
	}
}

// feel notes what an agent tells. A Jupyter Server that could not be asked leaves it unknown whether somebody works in
// it.
func (s *Sessions) feel(ctx context.Context, id spawner.ID, a control.Activity) {
	tx := s.engine.Begin()
	defer tx.End()
	e := tx.Entry(id)
	if e == nil || e.Phase != spawner.Running {
		return
	}
	now := time.Now()
	e.Pulse.Mute = time.Time{}
	if active := s.engine.Kind(e.Kind).Active; active != nil {
		active(tx, e, a)
	}
	s.acted(ctx, tx, e, e.Pulse.ActiveAt(a, e.Spec.Life, now))
	if a.Asked || !e.Kind.Jupyter() {
		e.Pulse.Looked, e.Pulse.CPU, e.Pulse.Memory = now, a.CPU, a.Memory
	}
	if p := plannedStop(e, now); !p.At.IsZero() && !now.Before(p.At.Add(-p.Warning)) {
		s.engine.Wake(id)
	}
}

// acted notes that something went on in a session.
func (s *Sessions) acted(ctx context.Context, tx engine.Tx, e *engine.Entry, at time.Time) {
	if !at.After(e.Active) {
		return
	}
	e.Active = at
	tx.CallBack(ctx, e)
	if at.Sub(e.Pulse.Saved) >= saveEvery {
		tx.SaveActivity(ctx, e, at)
	}
}

// Visit notes that somebody has sent a request to a session; acted says that it was to change something, as saving a
// file does. That a page is open and asks for news is no activity. Of a kernel that is not up yet it is noted that
// somebody asks for it.
func (s *Sessions) Visit(id spawner.ID, acted bool) {
	now := time.Now()
	if !s.isNews(id, acted, now) {
		return // as nearly every visit is: it must not wait until others have saved
	}
	tx := s.engine.Begin()
	defer tx.End()
	e := tx.Entry(id)
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
		s.acted(context.Background(), tx, e, now)
	}
	if first {
		tx.SaveActivity(context.Background(), e, now)
	}
}

// visitGrain is how exactly it is known when somebody last did something in a session.
const visitGrain = 10 * time.Second

// isNews reports whether a visit says more of a session than is known.
func (s *Sessions) isNews(id spawner.ID, acted bool, now time.Time) bool {
	v := s.engine.View()
	defer v.End()
	e := v.Entry(id)
	if e == nil || e.Phase != spawner.Running {
		return e != nil && e.Kind.Ephemeral() && now.Sub(e.Pulse.Asked) > visitGrain
	}
	return e.Visited.IsZero() || acted && now.Sub(e.Active) > visitGrain
}

// Keep puts the stop of a session that idles off: it runs on until d from now, at most Life.MaxKeep, whatever goes on
// in it. Its maximal age stays.
func (s *Sessions) Keep(
	ctx context.Context, c spawner.Caller, id spawner.ID, d time.Duration,
) (spawner.Workload, error) {
	tx := s.engine.Begin()
	w, err := s.keep(ctx, tx, c, id, d)
	tx.End()
	return s.engine.Vouch(ctx, w, err)
}

func (s *Sessions) keep(
	ctx context.Context, tx engine.Tx, c spawner.Caller, id spawner.ID, d time.Duration,
) (spawner.Workload, error) {
	e, err := tx.Find(c, id)
	if err != nil {
		return spawner.Workload{}, err
	}
	most := e.Spec.Life.MaxKeep
	switch {
	case e.Kind.Batch():
		return spawner.Workload{}, errs.New(errs.Invalid, "%s is a job: it runs until it is done", id)
	case e.Phase != spawner.Running || e.Want != spawner.WantRunning:
		return spawner.Workload{}, errs.New(errs.Conflict, "session %s is %s", id, e.Phase).With("start it first")
	case most == 0:
		return spawner.Workload{}, errs.New(
			errs.Forbidden, "sessions of profile %s cannot be kept while they idle", e.Spec.Profile,
		)
	case d <= 0 || d > most:
		return spawner.Workload{}, errs.Bad("for", d, fmt.Sprintf("a time such as 4h, at most %s", most))
	}
	err = tx.Change(ctx, e, func(e *engine.Entry) { e.KeepUntil, e.Pulse.Warned = time.Now().Add(d), time.Time{} })
	return e.Workload, err
}

// PlannedStop says when and why a session will be stopped if nothing goes on in it; the zero PlannedStop for one that
// does not run.
func (s *Sessions) PlannedStop(w spawner.Workload) spawner.PlannedStop {
	v := s.engine.View()
	defer v.End()
	e := v.Entry(w.ID)
	if e == nil || e.Phase != spawner.Running {
		return spawner.PlannedStop{}
	}
	return plannedStop(e, time.Now())
}

// warn tells a session's user that it will be stopped soon, once, and has the session looked at again when its time has
// come.
func (s *Sessions) warn(ctx context.Context, e engine.Entry) {
	if e.Phase != spawner.Running {
		return
	}
	now := time.Now()
	p := plannedStop(&e, now)
	if p.At.IsZero() {
		return
	}
	tell := p.At.Add(-p.Warning)
	switch {
	case now.Before(tell):
		s.markWarned(e.ID, time.Time{}, time.Time{})
		s.engine.WakeAfter(e.ID, tell.Sub(now)+time.Millisecond)
		return
	case p.Known && !culling.Unopened(e.Workload) && (!e.Pulse.ToldOf(p) || e.Pulse.LastCall(p, now)):
		s.markWarned(e.ID, now, clock.Latest(p.At, now.Add(culling.LeastWarning(p))))
		s.notify(ctx, e, p)
	}
	last := p.At.Add(-p.LastCall)
	switch {
	case p.LastCall > 0 && now.Before(last):
		s.engine.WakeAfter(e.ID, last.Sub(now)+time.Millisecond)
	case p.Known:
		s.engine.WakeAfter(
			e.ID,
			max(p.At.Sub(now), engine.LookAgain, culling.LeastWarning(p)-now.Sub(e.Pulse.Warned))+time.Millisecond,
		)
	}
}

func (s *Sessions) markWarned(id spawner.ID, at, stop time.Time) {
	tx := s.engine.Begin()
	defer tx.End()
	if e := tx.Entry(id); e != nil {
		e.Pulse.Warned, e.Pulse.Stop = at, stop
	}
}

// notify shows the coming stop on the session's terminals. JupyterLab asks for it by itself.
func (s *Sessions) notify(ctx context.Context, e engine.Entry, p spawner.PlannedStop) {
	left := max(time.Until(p.At), culling.LeastWarning(p))
	text := fmt.Sprintf(
		"Slipway will stop this session in %s: %s. %s", culling.Words(left), p.Why, culling.Advice(p, e.Kind),
	)
	if e.Kind == spawner.Kernel { // its agent says who tells it
		text = fmt.Sprintf(
			"This kernel will be stopped in %s: %s. %s", culling.Words(left), p.Why, culling.Advice(p, e.Kind),
		)
	}
	s.log.Info("session warned of its stop", "id", e.ID, "owner", e.Owner, "why", p.Why)
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	if err := s.engine.Agent(e.ID).Notify(ctx, text); err != nil {
		s.log.Debug("a session cannot be told of its stop", "id", e.ID, "err", err)
	}
}

// expired is the outcome of a session whose time was up.
func (s *Sessions) expired(e engine.Entry) spawner.Outcome {
	if a := e.Overrun(); a != nil {
		return spawner.Outcome{Expired: true, Reason: "stopped by Slipway: " + a.Message, Remedy: a.Remedy}
	}
	p := plannedStop(&e, time.Now())
	remedy := "start it again: its changes are kept"
	if e.Kind.Ephemeral() {
		remedy = diagnosis.AnotherKernel
	}
	return spawner.Outcome{Expired: true, Reason: "stopped by Slipway: " + p.Why, Remedy: remedy}
}

// LastActive returns the running sessions of a hub in which something went on or that somebody has opened.
func (s *Sessions) LastActive(hub string) []spawner.ActiveSession {
	v := s.engine.View()
	defer v.End()
	var list []spawner.ActiveSession
	for _, e := range v.All() {
		if at := clock.Latest(e.Visited, e.Active); e.Hub == hub && e.Phase == spawner.Running && e.Kind.HubServer() &&
			!at.IsZero() {
			list = append(list, spawner.ActiveSession{User: e.Owner, Name: e.Name, Active: at})
		}
	}
	return list
}

// plannedStop judges a running session by what is known of it at now.
func plannedStop(e *engine.Entry, now time.Time) spawner.PlannedStop {
	return culling.PlannedStop(e.Workload, e.Pulse.Looked, e.Seen.Deadline, now)
}

// isDue reports whether a running session is to be stopped now.
func isDue(e *engine.Entry, now time.Time) bool {
	return e.Overrun() != nil || e.Pulse.Due(plannedStop(e, now), e.Workload, now)
}
