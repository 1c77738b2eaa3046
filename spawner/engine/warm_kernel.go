package engine

import (
	"context"
	"reflect"
	"strings"
	"time"

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

// claimable reports whether a standby can become a kernel now: its agent is there, and waits.
func (e *Entry) claimable() bool {
	return e.IsStandby() && e.Phase == spawner.Starting && e.status.State == control.Idle
}

// alike reports whether kernels of two specs are started in the same way, up to what their clients say.
func alike(a, b spawner.Spec) bool {
	a.Life, b.Life = spawner.Life{}, spawner.Life{}
	for _, s := range []*spawner.Spec{&a, &b} {
		s.Env = withoutClients(s.Env)
	}
	return reflect.DeepEqual(a, b)
}

// withoutClients leaves out the variables that are a kernel's client's: their names begin all alike.
func withoutClients(env map[string]string) map[string]string {
	own := map[string]string{}
	for name, value := range env {
		if !strings.HasPrefix(name, "KERNEL_") {
			own[name] = value
		}
	}
	return own
}

// claim makes the kernel that is asked for of one of its owner's standbys; false: none would do.
func (tx Tx) claim(ctx context.Context, hub string, r spawner.SessionRequest, account spawner.Account) (spawner.Workload, bool, error) {
	r.Spec.GPU = tx.m.InGroup(r.Spec.GPU, hub, r.User)
	for _, e := range tx.Owned(spawner.Principal{Hub: hub, User: r.User}) {
		if e.Standby != r.Name || !e.IsStandby() {
			continue
		}
		if e.Backend != r.Backend || !alike(e.Spec, r.Spec) || !reflect.DeepEqual(e.Account, account) {
			if e.Phase == spawner.Starting { // its account is known then
				tx.standDown(ctx, e, "it is not what is asked for any more")
			}
			continue
		}
		if !e.claimable() {
			continue
		}
		now := time.Now()
		turn := tx.m.sched.NextTurn()
		err := tx.Change(ctx, e, func(e *Entry) {
			e.Spec, e.Launch, e.Kernel, e.Session, e.Standby = r.Spec, r.Launch, r.Kernel, r.From, ""
			e.Created, e.Started, e.Since, e.Turn = now, now, now, turn
			e.secrets, e.Sealed = orEmpty(r.Secrets), tx.m.seal(e.ID, r.Launch, r.Secrets)
			e.started = false // should it have died unseen, it is started anew
		})
		if err == nil {
			tx.Note(e, spawner.Event{Percent: 50, Message: "A kernel stood ready"})
		}
		return e.Workload, true, err
	}
	return spawner.Workload{}, false, nil
}

// standDown ends a standby.
func (tx Tx) standDown(ctx context.Context, e *Entry, why string) {
	tx.m.log.Info("a standby ends", "id", e.ID, "owner", e.Owner, "kernel", e.Standby, "why", why)
	if err := tx.Change(ctx, e, func(e *Entry) { e.Want = spawner.WantGone }); err != nil {
		tx.m.log.Warn("cannot end a standby; will be repeated", "id", e.ID, "err", err)
	} else if e.abort != nil {
		e.abort()
	}
}

// standbys returns those of which is true, the oldest first.
func (v View) standbys(is func(w *spawner.Workload) bool) (list []*Entry) {
	for _, w := range v.m.sched.Standbys(is) {
		list = append(list, v.m.work[w.ID])
	}
	return list
}

// giveWay ends standbys for somebody who waits and is next.
func (tx Tx) giveWay(ctx context.Context, waits *Entry) {
	for _, w := range tx.m.sched.InTheWay(&waits.Workload) {
		tx.standDown(ctx, tx.m.work[w.ID], "somebody waits for what it holds")
	}
}

// prepare has the agent of a standby do what can be done of a kernel's start beforehand.
func (m *Manager) prepare(ctx context.Context, e Entry) error {
	account, err := m.account(ctx, e)
	if err != nil {
		return err
	}
	app := m.app(e, account)
	app.Standby = true
	if err := m.launchApp(ctx, e.ID, app); err != nil {
		return err
	}
	tx := m.Begin()
	defer tx.End()
	if now := m.work[e.ID]; now != nil && now.Launch == e.Launch {
		now.prepared = true
		if p := m.pools.of[poolOf(&now.Workload)]; p != nil {
			p.failures, p.notUntil, p.lacks = 0, time.Time{}, ""
		}
	}
	return nil
}
