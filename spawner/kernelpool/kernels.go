package kernelpool

import (
	"context"
	"slices"

	"slipway/internal/errs"
	"slipway/spawner"
)

// StartKernel starts a kernel of the caller's and returns at once; Await and Events tell how it goes on. It keeps
// nothing when it ends: stopping it is removing it. One that is started from a session ends with that.
func (k *Pool) StartKernel(ctx context.Context, c spawner.Caller, r spawner.KernelRequest) (spawner.Workload, error) {
	if err := c.MayHaveKernels(); err != nil {
		return spawner.Workload{}, err
	}
	s, err := k.sessions.Examined(ctx, c.Hub, spawner.SessionRequest{
		User: c.User, Name: r.Name, Kind: spawner.Kernel, Spec: r.Spec, Backend: r.Backend, Launch: r.Launch,
		Kernel: r.ID, Entry: r.Entry, From: c.Workload,
	})
	if err != nil {
		return spawner.Workload{}, err
	}
	account, err := k.cfg.Account(ctx, c.Hub, c.User)
	if err != nil {
		return spawner.Workload{}, err
	}
	w, err := k.enterKernel(ctx, c, s, account, r.Warm)
	return k.engine.Vouch(ctx, w, err)
}

// enterKernel saves a new kernel, unless it was asked for before, or its owner has as many as she may. One that stands
// by becomes it.
func (k *Pool) enterKernel(
	ctx context.Context, c spawner.Caller, r spawner.SessionRequest, account spawner.Account, warm int,
) (spawner.Workload, error) {
	tx := k.engine.Begin()
	defer tx.End()
	active, ending := 0, 0
	for _, e := range tx.OwnedOfKind(c.Principal(), spawner.Kernel) {
		switch {
		case e.Standby != "":
		case e.Launch == r.Launch && e.Want == spawner.WantGone:
			return spawner.Workload{}, errs.New(errs.Conflict, "this kernel is still ending").
				With("try again in a moment")
		case e.Launch == r.Launch:
			return e.Workload, nil
		case e.Phase.Active() && e.Want == spawner.WantRunning:
			active++
		case e.Phase.Active():
			ending++
		}
	}
	if err := k.tooManyKernels(active, ending); err != nil {
		return spawner.Workload{}, err
	}
	k.usePool(c.Hub, r, warm)
	if w, claimed, err := k.claim(ctx, tx, c.Hub, r, account); claimed {
		return w, err
	}
	return k.sessions.Enter(ctx, tx, c.Hub, r, nil)
}

// tooManyKernels refuses one more than a user may have. Those that are ending do not count, so that whoever has shut
// one down starts the next at once: what they still hold nobody has until they are seen gone. But where more of them
// are ending than she may have she waits, or who starts and shuts down without end would have any number.
func (k *Pool) tooManyKernels(active, ending int) error {
	most := k.cfg.PerUser
	switch {
	case most > 0 && active >= most:
		return errs.New(errs.OverQuota, "you have %d kernels, and may have %d at once", active, most).
			With("shut one down first")
	case most > 0 && ending > most:
		return errs.New(errs.OverQuota, "%d of your kernels are still ending", ending).With("try again in a moment")
	}
	return nil
}

// Kernels returns the kernels of the caller's own that nobody has shut down, oldest first. One that ended by itself is
// among them for a while.
func (k *Pool) Kernels(c spawner.Caller) []spawner.Workload {
	v := k.engine.View()
	defer v.End()
	var list []spawner.Workload
	for _, e := range v.OwnedOfKind(c.Principal(), spawner.Kernel) {
		if e.Standby == "" && e.Want != spawner.WantGone && c.May(e.Workload) {
			list = append(list, e.Workload)
		}
	}
	slices.SortFunc(list, func(a, b spawner.Workload) int { return a.Created.Compare(b.Created) })
	return list
}
