package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/internal/gpu"
	"slipway/spawner"
	"slipway/spawner/diagnosis"
	"slipway/spawner/jobfiles"
	"slipway/spawner/journal"
	"slipway/spawner/launch"
	"slipway/spawner/place"
)

// starter brings workloads up: from their lease to their first answer.
type starter struct {
	*Records
	links    *agentLinks
	accounts accounts
	files    *jobfiles.Store
	launches launch.Maker
	gpus     GPUs
	// announce tells whoever asked for a start what happens in it; nil: nobody is told. See Config.AnnounceStart.
	announce      func(ctx context.Context, w spawner.Workload, secrets control.Env)
	announcements sync.WaitGroup
}

// start saves that the start has begun, then has the backend do it.
func (s *starter) start(ctx context.Context, e Entry) error {
	if e.Phase == spawner.Leased {
		account, err := s.accounts(ctx, e.Hub, e.Owner)
		if err != nil {
			return s.noAccount(ctx, e, err)
		}
		if e.Unkept != "" {
			s.Relay(e.ID, "What could not be kept when it last ended is gone from "+s.backends.At(e.Backend)+
				": it starts from what it had kept before", 0)
		}
		_, err = s.Change(ctx, e, func(e *Entry) {
			e.Phase, e.From, e.Saved, e.Unkept, e.Asked, e.Account = spawner.Starting, "", false, "", time.Time{}, account
			e.Seen, e.startedAt, e.quit, e.Keeping = spawner.Observation{}, time.Time{}, time.Time{}, Attempts{}
		})
		return err
	}
	if find := s.Kind(e.Kind).FindBase; find != nil && e.Remote && e.From == "" {
		return find(ctx, e)
	}
	s.Relay(e.ID, place.Of(&e.Workload).Opening(e.Kind, s.backends.At(e.Backend)), 0)
	l, err := s.launch(ctx, e)
	ready := err == nil
	if ready {
		err = s.backends.Named(e.Backend).Start(ctx, l)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, launch.ErrNotYet):
		s.Relay(e.ID, "The driver of the GPUs does not answer; trying again. If this lasts, tell your administrator", 0)
		return err
	case e.Remote && (errs.Is(err, errs.Unavailable) || errs.Is(err, errs.NoCapacity) || errs.Is(err, errs.OverQuota)):
		return s.notTaken(ctx, e, err, ready)
	case !ready && s.Kind(e.Kind).Postponed && errs.Is(err, errs.Unavailable):
		return s.postpone(ctx, e, "What it needs is not at hand now ("+diagnosis.Brief(err)+
			"): it is tried again. If this lasts, tell your administrator")
	case errors.Is(err, gpu.ErrBadPlace):
		return s.leaveSlice(ctx, e, strings.TrimPrefix(err.Error(), gpu.ErrBadPlace.Error()+": "), false)
	}
	if err != nil {
		return s.startFailed(ctx, e, err)
	}
	s.noteStarted(e)
	s.queue.Add(e.ID)
	return nil
}

// notTaken has a workload tried again that a Remote does not take now, or that was not ready for it.
func (s *starter) notTaken(ctx context.Context, e Entry, err error, ready bool) error {
	switch {
	case !errs.Is(err, errs.Unavailable):
		return s.backOff(ctx, e, err)
	case ready:
		s.Relay(e.ID, s.backends.At(e.Backend)+" takes nothing now; trying again. If this lasts, tell your administrator", 0)
	default:
		s.Relay(e.ID, "What it needs is not at hand now ("+diagnosis.Brief(err)+
			"); trying again. If this lasts, tell your administrator", 0)
	}
	return err
}

// noAccount refuses a start, with the reason why its owner has no account to run as. That it is not known just now a
// job waits for.
func (s *starter) noAccount(ctx context.Context, e Entry, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case s.Kind(e.Kind).Postponed && errs.Is(err, errs.Unavailable):
		return s.postpone(ctx, e, "Who its owner is on this host is not known just now ("+diagnosis.Brief(err)+
			"): it is tried again. If this lasts, tell your administrator")
	}
	return s.startFailed(ctx, e, err)
}

// startFailed ends a workload that cannot be started.
func (s *starter) startFailed(ctx context.Context, e Entry, err error) error {
	vessel := place.Of(&e.Workload).Vessel(e.Kind)
	return s.Finish(ctx, e, diagnosis.FromError(fmt.Errorf("start the %s: %w", vessel, err)))
}

// accounts return the account of a hub's user, making it at the first time.
type accounts func(ctx context.Context, hub string, user spawner.User) (spawner.Account, error)

// of returns as whom a workload runs: that is settled once for each start. Records of before may not have it.
func (a accounts) of(ctx context.Context, e Entry) (spawner.Account, error) {
	if e.Account.UID != 0 {
		return e.Account, nil
	}
	return a(ctx, e.Hub, e.Owner)
}

// noteStarted notes that the backend has done a start. When what it does on another host begins to run remains to be
// seen.
func (s *starter) noteStarted(e Entry) {
	tx := s.Begin()
	defer tx.End()
	now := s.work[e.ID]
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
func (s *starter) launch(ctx context.Context, e Entry) (spawner.Launch, error) {
	account, err := s.accounts.of(ctx, e)
	if err != nil {
		return spawner.Launch{}, err
	}
	l := spawner.Launch{
		Workload: e.Workload, Account: account, Dir: s.files.Dir(e.ID), InputDir: s.files.InputDir(e.Workload),
	}
	l.Report = func(message string, percent int) { s.Relay(e.ID, message, percent) }
	if err := s.launches.Prepare(ctx, &l); err != nil {
		return spawner.Launch{}, err
	}
	return l, s.links.admitAgent(e, account)
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
func (s *starter) hand(ctx context.Context, e Entry) error {
	account, err := s.accounts.of(ctx, e)
	if err != nil {
		return err
	}
	if err := s.launches.Confine(ctx, e.Workload, s.backends.Named(e.Backend)); errs.Is(err, errs.Missing) {
		return s.Finish(ctx, e, diagnosis.FromError(err))
	} else if err != nil {
		return fmt.Errorf("hold it to its share of the GPU: %w", err)
	}
	app := s.launches.App(e.Workload, account, e.Secrets)
	if send := s.Kind(e.Kind).SendInputs; send != nil {
		err = send(ctx, e)
	}
	if err == nil {
		err = s.links.launchApp(ctx, e.ID, app)
	}
	if errs.Is(err, errs.Invalid) {
		return s.Finish(ctx, e, diagnosis.FromError(err))
	}
	if err != nil {
		return fmt.Errorf("give the agent its app: %w", err)
	}
	if e.Phase == spawner.Booting { // a repetition: the agent's word of the first time was still on its way
		return nil
	}
	changed, err := s.Change(ctx, e, func(e *Entry) { e.Phase = spawner.Booting })
	if changed && err == nil && e.Kind.Session() {
		s.note(e.ID, spawner.Event{Percent: 60, Message: "Starting " + e.Kind.Title()})
	}
	return err
}

// welcome marks a session as answering, a job as running.
func (s *starter) welcome(ctx context.Context, e Entry) error {
	tx := s.Begin()
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
		s.sched.Trust(*now.Slice)
	}
	took := max(now.Up.Sub(now.Started), 0) // a clock may have been set back
	if up := s.Kind(now.Kind).Up; up != nil {
		up(tx, now)
	}
	s.counters.started(e.Kind, took)
	tx.Note(now, journal.Arrival(now.Workload, took))
	return nil
}
