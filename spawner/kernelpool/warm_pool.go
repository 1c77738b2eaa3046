package kernelpool

import (
	"cmp"
	"context"
	"crypto/rand"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"slipway/internal/clock"
	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/diagnosis"
	"slipway/spawner/engine"
	"slipway/spawner/sched"
)

// Pools are what keeps standbys: who has started a kernel of an entry that may have some is to have one stand by, as
// far as there is room. How many there are of an entry is of all users together, and of all kernelspecs that it stands
// for.

const (
	// of a standby that nobody takes: software and policy change, and its owner may have gone home
	standbyLife  = 30 * time.Minute
	standbyTurn  = 5 * time.Minute // after which it may give its place to that of another user
	standbyPause = time.Second     // between two that are made
	leastBackoff = time.Minute     // after one that failed; twice as long after each further one
	mostBackoff  = time.Hour
)

// pool is what a user started last of a kernelspec.
type pool struct {
	request  spawner.SessionRequest // without what her client said
	most     int                    // standbys of its entry at once
	used     time.Time
	failures int // in a row
	notUntil time.Time
	lacks    string // why she has none, as far as it was tried; empty: it was not, or she has
}

type poolKey struct {
	spawner.Principal
	name string // of the kernelspec
}

// pools are known while the service runs: who comes back after a restart of it is learned anew with her next kernel.
type pools struct {
	of   map[poolKey]*pool
	busy bool          // this host has too much to do to make any
	fill chan struct{} // holds one token when it is to be seen whether standbys are lacking
}

func newPools() pools { return pools{of: map[poolKey]*pool{}, fill: make(chan struct{}, 1)} }

func poolOf(w *spawner.Workload) poolKey { return poolKey{w.Principal(), w.Standby} }

// entryName is that of the kernels for which it is.
func (p *pool) entryName() string { return cmp.Or(p.request.Entry, p.request.Name) }

// usePool notes that a user has asked for a kernel of a kernelspec that may have standbys.
func (k *Pool) usePool(hub string, r spawner.SessionRequest, most int) {
	key := poolKey{spawner.Principal{Hub: hub, User: r.User}, r.Name}
	if most <= 0 || k.engine.IsRemote(r.Backend) {
		delete(k.pools.of, key)
		return
	}
	r.Spec.Env = withoutClients(r.Spec.Env)
	r.Launch, r.Kernel, r.From, r.Secrets, r.Spec.Life.Away, r.Spec.Life.FirstClient = "", "", "", nil, 0, 0
	p := k.pools.of[key]
	if p == nil || !alike(p.request.Spec, r.Spec) {
		p = &pool{}
		k.pools.of[key] = p
	}
	p.request, p.most, p.used = r, most, time.Now()
}

// failed notes that a standby could not be started, and sees to it that the next one is not tried at once.
func (k *Pool) failed(e *engine.Entry, o spawner.Outcome) {
	p := k.pools.of[poolOf(&e.Workload)]
	if e.Standby == "" || !o.Failed || p == nil {
		return
	}
	wait := min(leastBackoff<<min(p.failures, 10), mostBackoff)
	p.failures, p.notUntil, p.lacks = p.failures+1, time.Now().Add(wait), "the last one did not start: "+o.Reason
	k.log.Warn(
		"a standby of a kernel does not start", "kernel", e.Standby, "owner", e.Owner, "why", o.Reason, "failures",
		p.failures, "again_in", wait,
	)
}

// fillPools asks for a look at what is lacking. It does not wait.
func (k *Pool) fillPools() {
	select {
	case k.pools.fill <- struct{}{}:
	default:
	}
}

// keepPools makes standbys, one after the other, when a kernel was started and from time to time.
func (k *Pool) keepPools(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.pools.fill:
		}
		k.weedPools(ctx)
		for tried := map[poolKey]bool{}; k.fillOne(ctx, tried); {
			clock.Sleep(ctx, standbyPause)
		}
	}
}

// weedPools ends the standbys that are too old or not their owners' to have any more, and forgets who has started no
// kernel for as long.
func (k *Pool) weedPools(ctx context.Context) {
	tx := k.engine.Begin()
	list := k.standbys(tx.View, func(*spawner.Workload) bool { return true })
	all := make([]spawner.Workload, 0, len(list))
	for _, e := range list {
		all = append(all, e.Workload)
	}
	maps.DeleteFunc(k.pools.of, func(_ poolKey, p *pool) bool { return time.Since(p.used) >= standbyLife })
	tx.End()
	for _, w := range all {
		why := k.whyNoStandby(ctx, w)
		if why == "" {
			continue
		}
		tx := k.engine.Begin()
		if e := tx.Entry(w.ID); e != nil && e.IsStandby() {
			tx.StandDown(ctx, e, why)
		}
		tx.End()
	}
}

// whyNoStandby says why a standby is to end; empty: it may stay. That it is not known just now whose it may be is no
// reason: it is asked again before it is taken.
func (k *Pool) whyNoStandby(ctx context.Context, w spawner.Workload) string {
	if time.Since(w.Created) >= standbyLife {
		return "nobody has taken it"
	}
	if p := w.Spec.Profile; p != "" {
		if err := k.sessions.Offers(w.Hub, w.Owner).Offered(p); err != nil && !errs.Is(err, errs.Unavailable) {
			return "its owner may not have its profile any more: " + diagnosis.Brief(err)
		}
	}
	account, err := k.cfg.Account(ctx, w.Hub, w.Owner)
	switch {
	case ctx.Err() != nil, errs.Is(err, errs.Unavailable):
		return ""
	case err != nil:
		return "its owner has no account any more: " + diagnosis.Brief(err)
	case w.Phase == spawner.Starting && !reflect.DeepEqual(w.Account, account):
		return "its owner's account has changed"
	}
	return ""
}

// fillOne makes one standby of those that are lacking and were not tried yet, and reports whether it has.
func (k *Pool) fillOne(ctx context.Context, tried map[poolKey]bool) bool {
	for ctx.Err() == nil && !k.hasMuchToDo() {
		key, r, lacking := k.lacking(ctx, tried)
		if !lacking {
			return false
		}
		tried[key] = true
		err := k.makeStandby(ctx, key, r)
		if ctx.Err() == nil {
			k.noteLacking(key, err)
		}
		if err == nil {
			return true
		}
	}
	return false
}

func (k *Pool) hasMuchToDo() bool {
	busy := k.cfg.Busy != nil && k.cfg.Busy()
	tx := k.engine.Begin()
	defer tx.End()
	k.pools.busy = busy
	return busy
}

// lacking finds whose next kernel has no standby though it may, and what she asked for: of several who started one
// last. One of her kernels that is still starting goes first.
func (k *Pool) lacking(
	ctx context.Context, tried map[poolKey]bool,
) (key poolKey, r spawner.SessionRequest, lacking bool) {
	tx := k.engine.Begin()
	defer tx.End()
	now := time.Now()
	lastFirst := func(a, b poolKey) int { return k.pools.of[b].used.Compare(k.pools.of[a].used) }
	for _, key := range slices.SortedFunc(maps.Keys(k.pools.of), lastFirst) {
		p := k.pools.of[key]
		if tried[key] || now.Before(p.notUntil) || k.coming(tx.View, key) {
			continue
		}
		ofEntry := func(w *spawner.Workload) bool { return w.EntryName() == p.entryName() }
		all := k.standbys(tx.View, ofEntry)
		switch {
		case slices.ContainsFunc(all, func(e *engine.Entry) bool { return poolOf(&e.Workload) == key }):
		case max(len(all), len(tx.Sched().StandbysHolding(ofEntry))) < p.most: // the place of one that is ending is for whom it ends
			return key, p.request, true
		default:
			p.lacks = "as many as there may be of it stand by for others"
			if e := p.replaces(all, key.Principal, now); e != nil {
				tx.StandDown(ctx, e, "another is to have its place")
			}
		}
	}
	return poolKey{}, spawner.SessionRequest{}, false
}

// replaces returns which of all standbys of an entry, the oldest first, makes room for one of a user's; nil: none yet.
// Of her own the last word counts at once.
func (p *pool) replaces(all []*engine.Entry, of spawner.Principal, now time.Time) *engine.Entry {
	for _, e := range all {
		if e.Created.Before(p.used) && (e.Principal() == of || now.Sub(e.Created) >= standbyTurn) {
			return e
		}
	}
	return nil
}

// coming reports whether a kernel of a user's is not up yet.
func (k *Pool) coming(v engine.View, key poolKey) bool {
	for _, e := range v.OwnedOfKind(key.Principal, spawner.Kernel) {
		if e.Standby == "" && e.Phase.Active() && e.Phase != spawner.Running && e.Phase != spawner.Stopping {
			return true
		}
	}
	return false
}

// makeStandby makes one, if there is room for it that nobody waits for.
func (k *Pool) makeStandby(ctx context.Context, key poolKey, r spawner.SessionRequest) error {
	tx := k.engine.Begin()
	_, _, err := k.vacant(tx, key, r)
	tx.End()
	if err != nil {
		return err // nobody was asked for that
	}
	r.Launch = "standby-" + strings.ToLower(rand.Text())
	if r, err = k.sessions.Examined(ctx, key.Hub, r); err != nil {
		return err
	}
	return k.enterStandby(ctx, key, r)
}

// enterStandby saves a new standby and leases what it needs. It is saved before it holds anything, as all workloads
// are: where a lease was saved and not confirmed, its record is known, and goes.
func (k *Pool) enterStandby(ctx context.Context, key poolKey, r spawner.SessionRequest) error {
	tx := k.engine.Begin()
	defer tx.End()
	e, g, err := k.vacant(tx, key, r)
	if err != nil {
		return err
	}
	err = tx.Start(ctx, e, r.Launch, nil, func(e *engine.Entry) { e.Standby, e.Phase = key.name, spawner.Pending })
	if err != nil {
		return err
	}
	return tx.Change(ctx, e, func(e *engine.Entry) { e.Phase, e.Slice = spawner.Leased, g.Slice })
}

// vacant returns a new standby and what it may have now; the error says why there is nothing for it.
func (k *Pool) vacant(tx engine.Tx, key poolKey, r spawner.SessionRequest) (*engine.Entry, sched.Grant, error) {
	if k.pools.of[key] == nil {
		return nil, sched.Grant{}, errs.New(errs.NoCapacity, "nobody is to have it any more")
	}
	r.Spec.GPU = k.engine.InGroup(r.Spec.GPU, key.Hub, r.User)
	e := engine.NewEntry(k.sessions.SessionOf(key.Hub, r))
	g, lacks := tx.Sched().Vacancy(&e.Workload)
	if lacks != "" || g.Lender != "" {
		return nil, sched.Grant{}, errs.New(errs.NoCapacity, "there is no room: %s", lacks)
	}
	if who := tx.Sched().AwaitedBy(&e.Workload, g); who != nil {
		return nil, sched.Grant{}, errs.New(errs.NoCapacity, "%s waits for what it would hold", who.ID)
	}
	return e, g, nil
}
