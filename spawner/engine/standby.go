package engine

import (
	"context"

	"slipway/internal/agent/control"
	"slipway/spawner"
)

// A standby is a kernel that its owner has not asked for yet: leased and started like any other, its agent up and its
// interpreter loaded, but for its app. Her next kernel of the same kernelspec is made of it by one change of its
// record, so it answers at once.
//
// It is its owner's from the beginning, with her account, home, groups and storage, and never changes hands: what a
// container is cannot be changed once it runs, and one that could become anybody's would have to begin with more rights
// than any workload has. So the first kernel of a user starts as ever, and those after it are warm.
//
// It holds a lease as every workload does, and nobody waits for it: it is made of what is free and nobody else is to
// have next, and ends as soon as it keeps somebody from starting. So what it holds counts as free for whoever asks. It
// counts towards no limit of its owner's.

// Claimable reports whether a standby can become a kernel now: its agent is there, and waits.
func (e *Entry) Claimable() bool {
	return e.IsStandby() && e.Phase == spawner.Starting && e.Status.State == control.Idle
}

// StandDown ends a standby.
func (tx Tx) StandDown(ctx context.Context, e *Entry, why string) {
	tx.r.log.Info("a standby ends", "id", e.ID, "owner", e.Owner, "kernel", e.Standby, "why", why)
	if err := tx.Change(ctx, e, func(e *Entry) { e.Want = spawner.WantGone }); err != nil {
		tx.r.log.Warn("cannot end a standby; will be repeated", "id", e.ID, "err", err)
	} else {
		e.Interrupt()
	}
}

// giveWay ends standbys for somebody who waits and is next.
func (tx Tx) giveWay(ctx context.Context, waits *Entry) {
	for _, w := range tx.r.sched.InTheWay(&waits.Workload) {
		tx.StandDown(ctx, tx.r.work[w.ID], "somebody waits for what it holds")
	}
}

// prepare has the agent of a standby do what can be done of a kernel's start beforehand.
func (s *starter) prepare(ctx context.Context, e Entry) error {
	account, err := s.accounts.of(ctx, e)
	if err != nil {
		return err
	}
	app := s.launches.App(e.Workload, account, e.Secrets)
	app.Standby = true
	if err := s.links.launchApp(ctx, e.ID, app); err != nil {
		return err
	}
	tx := s.Begin()
	defer tx.End()
	if now := s.work[e.ID]; now != nil && now.Launch == e.Launch {
		now.prepared = true
		s.Kind(now.Kind).Prewarmed(tx, now)
	}
	return nil
}
