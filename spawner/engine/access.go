package engine

import (
	"context"
	"iter"
	"maps"
	"slices"

	"slipway/internal/errs"
	"slipway/spawner"
)

// Get returns a workload that the caller may see.
func (r *Records) Get(_ context.Context, c spawner.Caller, id spawner.ID) (spawner.Workload, error) {
	v := r.View()
	defer v.End()
	e, err := v.Find(c, id)
	if err != nil {
		return spawner.Workload{}, err
	}
	return e.Workload, nil
}

// Find finds a workload. One that is not the caller's is not found, like one that does not exist.
func (v View) Find(c spawner.Caller, id spawner.ID) (*Entry, error) {
	e := v.r.work[id]
	if e == nil || !c.May(e.Workload) {
		return nil, v.r.tombstones.NoWorkload(c, id)
	}
	return e, nil
}

// List returns the workloads that the caller may see, oldest first.
func (r *Records) List(_ context.Context, c spawner.Caller) ([]spawner.Workload, error) {
	v := r.View()
	defer v.End()
	var list []spawner.Workload
	for e := range v.visible(c) {
		if c.May(e.Workload) && (e.Standby == "" || c.Admin || c.System) { // its owner has not asked for it
			list = append(list, e.Workload)
		}
	}
	slices.SortFunc(list, func(a, b spawner.Workload) int { return a.Created.Compare(b.Created) })
	return list, nil
}

// WithoutAny does what must not be done while a workload is there that of is true of. Until it is done, none is added.
func (r *Records) WithoutAny(of func(spawner.Workload) bool, do func() error) error {
	tx := r.Begin()
	defer tx.End()
	for _, e := range r.work {
		if of(e.Workload) {
			return errs.New(errs.Conflict, "%s is there", e.ID)
		}
	}
	return do()
}

// visible narrows the workloads down to those among which c may see some.
func (v View) visible(c spawner.Caller) iter.Seq[*Entry] {
	if c.User == "" || c.Admin || c.System {
		return maps.Values(v.r.work)
	}
	return maps.Values(v.r.index.owned[c.Principal()])
}

// Stop ends a workload: a session keeps its changes, a job is canceled, a kernel is removed. It returns at once; Await
// waits. Stopping what is stopped is success.
func (r *Records) Stop(ctx context.Context, c spawner.Caller, id spawner.ID) (spawner.Workload, error) {
	return r.wish(ctx, c, id, spawner.WantStopped)
}

// StopLaunch ends the session whose current launch a hub has named so, and never one of a later launch.
func (r *Records) StopLaunch(ctx context.Context, c spawner.Caller, name string) (spawner.Workload, error) {
	return r.Update(
		ctx, r.wishFor(func() spawner.ID { return r.index.launches[launchName{c.Hub, name}] }, c, spawner.WantStopped),
	)
}

// Remove ends a workload if need be, removes all that is left of it (a session's changes, a job's files) and forgets
// it. It returns at once.
func (r *Records) Remove(ctx context.Context, c spawner.Caller, id spawner.ID) error {
	_, err := r.wish(ctx, c, id, spawner.WantGone)
	return err
}

// wish records what the owner wants. What is to be gone stays so.
func (r *Records) wish(
	ctx context.Context, c spawner.Caller, id spawner.ID, want spawner.Want,
) (spawner.Workload, error) {
	return r.Update(ctx, r.wishFor(func() spawner.ID { return id }, c, want))
}

// Vouch makes what was saved safe before anybody is told of it. Many who are told at once share one flush of the disk,
// and nobody holds the lock meanwhile.
func (r *Records) Vouch(ctx context.Context, w spawner.Workload, err error) (spawner.Workload, error) {
	if err != nil {
		return w, err
	}
	return w, r.Sync(ctx)
}

// wishFor is what an owner wants of the workload that find finds under the lock.
func (r *Records) wishFor(find func() spawner.ID, c spawner.Caller, want spawner.Want) *Update {
	decide := func(tx Tx, _ map[spawner.Principal]int) (*Entry, func(*Entry), error) {
		e, err := tx.Find(c, find())
		want := want
		if e != nil && e.Kind.Ephemeral() {
			want = spawner.WantGone
		}
		if err != nil || e.Want == want || e.Want == spawner.WantGone {
			return e, nil, err
		}
		return e, func(e *Entry) { e.Want = want }, nil
	}
	return &Update{Decide: decide, After: func(_ Tx, e *Entry) {
		e.Interrupt()
	}}
}

// Await returns the workload as soon as done says so, or as it is when ctx ends, with ctx's error. A workload that is
// forgotten meanwhile is NotFound.
func (r *Records) Await(
	ctx context.Context, c spawner.Caller, id spawner.ID, done func(spawner.Workload) bool,
) (spawner.Workload, error) {
	for {
		w, changed, err := r.peek(c, id)
		if err != nil || done(w) {
			return w, err
		}
		select {
		case <-ctx.Done():
			return w, ctx.Err()
		case <-changed:
		}
	}
}

func (r *Records) peek(c spawner.Caller, id spawner.ID) (spawner.Workload, <-chan struct{}, error) {
	v := r.View()
	defer v.End()
	e, err := v.Find(c, id)
	if err != nil {
		return spawner.Workload{}, nil, err
	}
	return e.Workload, e.changed, nil
}

// Route finds the session of a hub to which a decoded URL path belongs: the active one with the longest prefix of path.
func (r *Records) Route(hub, path string) (spawner.ID, bool) {
	v := r.View()
	defer v.End()
	return r.index.route(hub, path)
}

// Launched finds the session whose current launch a hub has named so.
func (r *Records) Launched(_ context.Context, c spawner.Caller, name string) (spawner.Workload, error) {
	v := r.View()
	defer v.End()
	e, err := v.Find(c, r.index.launches[launchName{c.Hub, name}])
	if err != nil {
		return spawner.Workload{}, err
	}
	return e.Workload, nil
}
