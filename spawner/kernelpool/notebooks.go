package kernelpool

import (
	"context"
	"slices"

	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/engine"
)

// Bind notes that a notebook is one of a kernel of the caller's: another one, or what is known of it now.
func (k *Pool) Bind(
	ctx context.Context, c spawner.Caller, id spawner.ID, n spawner.Notebook,
) (spawner.Workload, error) {
	if err := n.Check(); err != nil {
		return spawner.Workload{}, err
	}
	tx := k.engine.Begin()
	w, err := k.bind(ctx, tx, c, id, n)
	tx.End()
	return k.engine.Vouch(ctx, w, err)
}

func (k *Pool) bind(
	ctx context.Context, tx engine.Tx, c spawner.Caller, id spawner.ID, n spawner.Notebook,
) (spawner.Workload, error) {
	e, err := tx.Find(c, id)
	switch {
	case err != nil:
		return spawner.Workload{}, err
	case e.Kind != spawner.Kernel:
		return spawner.Workload{}, errs.New(errs.Invalid, "%s is no kernel", id)
	case e.Want == spawner.WantGone || !e.Phase.Active():
		return spawner.Workload{}, errs.New(errs.Conflict, "the kernel has ended").With("start another")
	}
	list, err := withNotebook(e.Notebooks, n)
	if err != nil || slices.Equal(list, e.Notebooks) {
		return e.Workload, err
	}
	err = tx.Change(ctx, e, func(e *engine.Entry) { e.Notebooks = list })
	return e.Workload, err
}

// withNotebook returns a copy of a kernel's notebooks with one more, or with what is known of it now.
func withNotebook(list []spawner.Notebook, n spawner.Notebook) ([]spawner.Notebook, error) {
	list = slices.Clone(list)
	if i := slices.IndexFunc(list, func(o spawner.Notebook) bool { return o.ID == n.ID }); i >= 0 {
		list[i] = n
		return list, nil
	}
	if len(list) == spawner.MostNotebooks {
		return nil, errs.New(errs.OverQuota, "%d notebooks have this kernel, and no more can", len(list)).
			With("start another kernel")
	}
	return append(list, n), nil
}
