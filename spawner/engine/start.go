package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/internal/gpu"
	"slipway/spawner"
	"slipway/spawner/diagnosis"
	"slipway/spawner/journal"
	"slipway/spawner/launch"
	"slipway/spawner/place"
)

// start saves that the start has begun, then has the backend do it.
func (m *Manager) start(ctx context.Context, e Entry) error {
	if e.Phase == spawner.Leased {
		account, err := m.cfg.Account(ctx, e.Hub, e.Owner)
		if err != nil {
			return m.noAccount(ctx, e, err)
		}
		if e.Unkept != "" {
			m.Relay(e.ID, "What could not be kept when it last ended is gone from "+m.At(e.Backend)+
				": it starts from what it had kept before", 0)
		}
		_, err = m.Change(ctx, e, func(e *Entry) {
			e.Phase, e.From, e.Saved, e.Unkept, e.Asked, e.Account = spawner.Starting, "", false, "", time.Time{}, account
			e.Seen, e.startedAt, e.quit, e.Keeping = spawner.Observation{}, time.Time{}, time.Time{}, Attempts{}
		})
		return err
	}
	if find := m.Kind(e.Kind).FindBase; find != nil && e.Remote && e.From == "" {
		return find(ctx, e)
	}
	m.Relay(e.ID, place.Of(&e.Workload).Opening(e.Kind, m.At(e.Backend)), 0)
	l, err := m.launch(ctx, e)
	ready := err == nil
	if ready {
		err = m.Backends.Named(e.Backend).Start(ctx, l)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, launch.ErrNotYet):
		m.Relay(e.ID, "The driver of the GPUs does not answer; trying again. If this lasts, tell your administrator", 0)
		return err
	case e.Remote && (errs.Is(err, errs.Unavailable) || errs.Is(err, errs.NoCapacity) || errs.Is(err, errs.OverQuota)):
		return m.notTaken(ctx, e, err, ready)
	case !ready && m.Kind(e.Kind).Postponed && errs.Is(err, errs.Unavailable):
		return m.postpone(ctx, e, "What it needs is not at hand now ("+Brief(err)+
			"): it is tried again. If this lasts, tell your administrator")
	case errors.Is(err, gpu.ErrBadPlace):
		return m.leaveSlice(ctx, e, strings.TrimPrefix(err.Error(), gpu.ErrBadPlace.Error()+": "), false)
	}
	if err != nil {
		return m.startFailed(ctx, e, err)
	}
	m.noteStarted(e)
	m.queue.Add(e.ID)
	return nil
}

// notTaken has a workload tried again that a Remote does not take now, or that was not ready for it.
func (m *Manager) notTaken(ctx context.Context, e Entry, err error, ready bool) error {
	switch {
	case !errs.Is(err, errs.Unavailable):
		return m.backOff(ctx, e, err)
	case ready:
		m.Relay(e.ID, m.At(e.Backend)+" takes nothing now; trying again. If this lasts, tell your administrator", 0)
	default:
		m.Relay(e.ID, "What it needs is not at hand now ("+Brief(err)+
			"); trying again. If this lasts, tell your administrator", 0)
	}
	return err
}

// noAccount refuses a start, with the reason why its owner has no account to run as. That it is not known just now a
// job waits for.
func (m *Manager) noAccount(ctx context.Context, e Entry, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case m.Kind(e.Kind).Postponed && errs.Is(err, errs.Unavailable):
		return m.postpone(ctx, e, "Who its owner is on this host is not known just now ("+Brief(err)+
			"): it is tried again. If this lasts, tell your administrator")
	}
	return m.startFailed(ctx, e, err)
}

// startFailed ends a workload that cannot be started.
func (m *Manager) startFailed(ctx context.Context, e Entry, err error) error {
	vessel := place.Of(&e.Workload).Vessel(e.Kind)
	return m.Finish(ctx, e, diagnosis.FromError(fmt.Errorf("start the %s: %w", vessel, err)))
}

// account returns as whom a workload runs: that is settled once for each start. Records of before may not have it.
func (m *Manager) account(ctx context.Context, e Entry) (spawner.Account, error) {
	if e.Account.UID != 0 {
		return e.Account, nil
	}
	return m.cfg.Account(ctx, e.Hub, e.Owner)
}

// noteStarted notes that the backend has done a start. When what it does on another host begins to run remains to be
// seen.
func (m *Manager) noteStarted(e Entry) {
	tx := m.Begin()
	defer tx.End()
	now := m.work[e.ID]
	if now == nil || now.Launch != e.Launch || now.Moves != e.Moves {
		return
	}
	if tx.taken(now); !now.Remote {
		now.startedAt = time.Now()
		message := "The " + place.Of(&e.Workload).Vessel(e.Kind) + " runs; waiting for its agent"
		tx.Note(now, spawner.Event{Percent: 50, Message: message})
	}
}

// launch gathers what the backend needs, and opens the door for the agent.
func (m *Manager) launch(ctx context.Context, e Entry) (spawner.Launch, error) {
	account, err := m.account(ctx, e)
	if err != nil {
		return spawner.Launch{}, err
	}
	l := spawner.Launch{
		Workload: e.Workload, Account: account, Dir: m.files.Dir(e.ID), InputDir: m.files.InputDir(e.Workload),
	}
	l.Report = func(message string, percent int) { m.Relay(e.ID, message, percent) }
	if err := m.launches.Prepare(ctx, &l); err != nil {
		return spawner.Launch{}, err
	}
	return l, m.admitAgent(e, account)
}

// Relay tells the owner what a backend says of a start, in the part of the way that is the backend's. What was said
// last is not said again.
func (r *Records) Relay(id spawner.ID, message string, percent int) {
	tx := r.Begin()
	defer tx.End()
	e := r.work[id]
	if e == nil || strings.EqualFold(e.Journal.Latest().Message, message) {
		return
	}
	tx.Note(e, spawner.Event{Percent: 20 + max(percent, 0)*30/100, Message: message})
}

// hand gives the agent its app: a session's secrets travel here, over the link, and nowhere else.
func (m *Manager) hand(ctx context.Context, e Entry) error {
	account, err := m.account(ctx, e)
	if err != nil {
		return err
	}
	if err := m.launches.Confine(ctx, e.Workload, m.Backends.Named(e.Backend)); errs.Is(err, errs.Missing) {
		return m.Finish(ctx, e, diagnosis.FromError(err))
	} else if err != nil {
		return fmt.Errorf("hold it to its share of the GPU: %w", err)
	}
	app := m.launches.App(e.Workload, account, e.Secrets)
	if send := m.Kind(e.Kind).SendInputs; send != nil {
		err = send(ctx, e)
	}
	if err == nil {
		err = m.launchApp(ctx, e.ID, app)
	}
	if errs.Is(err, errs.Invalid) {
		return m.Finish(ctx, e, diagnosis.FromError(err))
	}
	if err != nil {
		return fmt.Errorf("give the agent its app: %w", err)
	}
	if e.Phase == spawner.Booting { // a repetition: the agent's word of the first time was still on its way
		return nil
	}
	changed, err := m.Change(ctx, e, func(e *Entry) { e.Phase = spawner.Booting })
	if changed && err == nil && e.Kind.Session() {
		m.note(e.ID, spawner.Event{Percent: 60, Message: "Starting " + e.Kind.Title()})
	}
	return err
}

// AgentPatience is how long an agent may take to answer. It is the user's, so it may be mute.
const AgentPatience = 15 * time.Second

func (m *Manager) launchApp(ctx context.Context, id spawner.ID, app control.App) error {
	ctx, cancel := context.WithTimeout(ctx, AgentPatience)
	defer cancel()
	return m.cfg.Agents.Agent(id).Launch(ctx, app)
}

// welcome marks a session as answering, a job as running.
func (m *Manager) welcome(ctx context.Context, e Entry) error {
	tx := m.Begin()
	defer tx.End()
	now := tx.Unchanged(e)
	if now == nil {
		return nil
	}
	err := tx.Change(ctx, now, func(e *Entry) {
		// there it may have to begin anew
		if e.Phase, e.Up, e.Ran, e.Bad = spawner.Running, time.Now(), true, nil; !e.Remote {
			e.Secrets, e.Sealed = nil, nil
		}
	})
	if err != nil {
		return err
	}
	if now.Slice != nil {
		m.sched.Trust(*now.Slice)
	}
	took := max(now.Up.Sub(now.Started), 0) // a clock may have been set back
	if up := m.Kind(now.Kind).Up; up != nil {
		up(tx, now)
	}
	m.counters.started(e.Kind, took)
	tx.Note(now, journal.Arrival(now.Workload, took))
	return nil
}
