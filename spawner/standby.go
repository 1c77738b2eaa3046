package spawner

import (
	"context"
	"crypto/rand"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
)

// A standby is a kernel that its owner has not asked for yet: leased and started like any other, its agent up and its interpreter loaded, but
// for its app. Her next kernel of the same kernelspec is made of it by one change of its record, so it answers at once.
//
// It is its owner's from the beginning, with her account, home, groups and storage, and never changes hands: what a container is cannot be
// changed once it runs, and one that could become anybody's would have to begin with more rights than any workload has. So the first kernel
// of a user starts as ever, and those after it are warm.
//
// It holds a lease as every workload does, and nobody waits for it: it is made of what is free, and ends as soon as somebody waits for what it
// holds. It counts towards no limit of its owner's.

const (
	standbyLife  = 30 * time.Minute // of a standby that nobody takes: software and policy change, and its owner may have gone home
	standbyTurn  = 5 * time.Minute  // after which it may give its place to that of another user
	standbyPause = time.Second      // between two that are made
	leastBackoff = time.Minute      // after one that failed; twice as long after each further one
	mostBackoff  = time.Hour
)

// pool is what a user started last of a kernelspec.
type pool struct {
	request  SessionRequest // without what her client said
	most     int            // standbys of the kernelspec at once, of all users
	used     time.Time
	failures int // in a row
	notUntil time.Time
}

type poolKey struct {
	owner
	name string
}

// pools are known while the service runs: who comes back after a restart of it is learned anew with her next kernel.
type pools struct {
	of   map[poolKey]*pool
	fill chan struct{} // holds one token when it is to be seen whether standbys are lacking
}

func newPools() pools { return pools{of: map[poolKey]*pool{}, fill: make(chan struct{}, 1)} }

// stands reports whether w is a standby that may still be taken.
func (w *Workload) stands() bool {
	return w.Standby != "" && w.Want == WantRunning && w.Phase.Active() && w.Phase != Stopping
}

// claimable reports whether a standby can become a kernel now: its agent is there, and waits.
func (e *entry) claimable() bool {
	return e.stands() && e.Phase == Starting && e.status.State == control.Idle
}

func (w *Workload) pool() poolKey { return poolKey{w.owner(), w.Standby} }

// usePoolLocked notes that a user has asked for a kernel of a kernelspec that may have standbys.
func (m *Manager) usePoolLocked(hub string, r SessionRequest, most int) {
	key := poolKey{owner{hub, r.User}, r.Name}
	if most <= 0 || m.remote(r.Backend) {
		delete(m.pools.of, key)
		return
	}
	r.Spec.Env = withoutClients(r.Spec.Env)
	r.Launch, r.Kernel, r.From, r.Secrets, r.Spec.Life.Away = "", "", "", nil, 0
	p := m.pools.of[key]
	if p == nil || !alike(p.request.Spec, r.Spec) {
		p = &pool{}
		m.pools.of[key] = p
	}
	p.request, p.most, p.used = r, most, time.Now()
}

// alike reports whether kernels of two specs are started in the same way, up to what their clients say.
func alike(a, b Spec) bool {
	a.Life, b.Life = Life{}, Life{}
	for _, s := range []*Spec{&a, &b} {
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

// claimLocked makes the kernel that is asked for of one of its owner's standbys; false: none would do.
func (m *Manager) claimLocked(ctx context.Context, hub string, r SessionRequest, account Account) (Workload, bool, error) {
	r.Spec.GPU = m.InGroup(r.Spec.GPU, hub, r.User)
	for _, e := range m.index.owned[owner{hub, r.User}] {
		if e.Standby != r.Name || !e.stands() {
			continue
		}
		if e.Backend != r.Backend || !alike(e.Spec, r.Spec) || !reflect.DeepEqual(e.Account, account) {
			if e.Phase == Starting { // its account is known then
				m.standDownLocked(ctx, e, "it is not what is asked for any more")
			}
			continue
		}
		if !e.claimable() {
			continue
		}
		now := time.Now()
		m.turn++
		err := m.changeLocked(ctx, e, func(e *entry) {
			e.Spec, e.Launch, e.Kernel, e.Session, e.Standby = r.Spec, r.Launch, r.Kernel, r.From, ""
			e.Created, e.Started, e.Since, e.Turn = now, now, now, m.turn
			e.secrets, e.Sealed = orEmpty(r.Secrets), m.seal(e.ID, r.Launch, r.Secrets)
			e.started = false // should it have died unseen, it is started anew
		})
		if err == nil {
			m.noteLocked(e, Event{Percent: 50, Message: "A kernel stood ready"})
		}
		return e.Workload, true, err
	}
	return Workload{}, false, nil
}

// standDownLocked ends a standby.
func (m *Manager) standDownLocked(ctx context.Context, e *entry, why string) {
	m.log.Info("a standby ends", "id", e.ID, "owner", e.Owner, "kernel", e.Standby, "why", why)
	if err := m.changeLocked(ctx, e, func(e *entry) { e.Want = WantGone }); err != nil {
		m.log.Warn("cannot end a standby; will be repeated", "id", e.ID, "err", err)
	} else if e.abort != nil {
		e.abort()
	}
}

// standbysLocked gives those of which is true, the oldest first.
func (m *Manager) standbysLocked(is func(e *entry) bool) (list []*entry) {
	for id := range m.index.standbys {
		if e := m.work[id]; e != nil && e.stands() && is(e) {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b *entry) int { return a.Created.Compare(b.Created) })
	return list
}

// giveWayLocked ends the standbys that hold of what somebody waits for.
func (m *Manager) giveWayLocked(ctx context.Context, waits *entry) {
	if waits.Remote || len(m.index.standbys) == 0 {
		return
	}
	noRoom, noPart := m.ledger.lacks(waits.Backend, waits.Spec.Resources) != "", !waits.gpuHere().None()
	for _, e := range m.standbysLocked(func(e *entry) bool {
		return noRoom && m.ledger.together(e.Backend, waits.Backend) || noPart && e.Slice != nil
	}) {
		m.standDownLocked(ctx, e, "somebody waits for what it holds")
	}
}

// failedLocked notes that a standby could not be started, and sees to it that the next one is not tried at once.
func (m *Manager) failedLocked(e *entry, o Outcome) {
	p := m.pools.of[e.pool()]
	if e.Standby == "" || !o.Failed || p == nil {
		return
	}
	wait := min(leastBackoff<<min(p.failures, 10), mostBackoff)
	p.failures, p.notUntil = p.failures+1, time.Now().Add(wait)
	m.log.Warn("a standby of a kernel does not start", "kernel", e.Standby, "owner", e.Owner, "why", o.Reason, "failures", p.failures, "again_in", wait)
}

// prepare has the agent of a standby do what can be done of a kernel's start beforehand.
func (m *Manager) prepare(ctx context.Context, e entry) error {
	account, err := m.account(ctx, e)
	if err != nil {
		return err
	}
	app := m.app(e, account)
	app.Standby = true
	if err := m.launchApp(ctx, e.ID, app); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := m.work[e.ID]; now != nil && now.Launch == e.Launch {
		now.prepared = true
		if p := m.pools.of[now.pool()]; p != nil {
			p.failures = 0
		}
	}
	return nil
}

// fillPools asks for a look at what is lacking. It does not wait.
func (m *Manager) fillPools() {
	select {
	case m.pools.fill <- struct{}{}:
	default:
	}
}

// keepPools makes standbys, one after the other, when a kernel was started and from time to time.
func (m *Manager) keepPools(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.pools.fill:
		}
		m.weedPools(ctx)
		for ctx.Err() == nil && m.fillOne(ctx) {
			pause(ctx, standbyPause)
		}
	}
}

// weedPools ends the standbys that are too old or not their owners' to have any more, and forgets who has started no kernel for as long.
func (m *Manager) weedPools(ctx context.Context) {
	m.mu.Lock()
	list := m.standbysLocked(func(*entry) bool { return true })
	all := make([]Workload, 0, len(list))
	for _, e := range list {
		all = append(all, e.Workload)
	}
	maps.DeleteFunc(m.pools.of, func(_ poolKey, p *pool) bool { return time.Since(p.used) >= standbyLife })
	m.mu.Unlock()
	for _, w := range all {
		why := m.whyNoStandby(ctx, w)
		if why == "" {
			continue
		}
		m.mu.Lock()
		if e := m.work[w.ID]; e != nil && e.stands() {
			m.standDownLocked(ctx, e, why)
		}
		m.mu.Unlock()
	}
}

// whyNoStandby says why a standby is to end; empty: it may stay. That it is not known just now whose it may be is no reason: it is asked again
// before it is taken.
func (m *Manager) whyNoStandby(ctx context.Context, w Workload) string {
	if time.Since(w.Created) >= standbyLife {
		return "nobody has taken it"
	}
	if p := w.Spec.Profile; p != "" {
		if err := m.Offers(w.Hub, w.Owner).Offered(p); err != nil && !errs.Is(err, errs.Unavailable) {
			return "its owner may not have its profile any more: " + brief(err)
		}
	}
	account, err := m.cfg.Account(ctx, w.Hub, w.Owner)
	switch {
	case ctx.Err() != nil, errs.Is(err, errs.Unavailable):
		return ""
	case err != nil:
		return "its owner has no account any more: " + brief(err)
	case w.Phase == Starting && !reflect.DeepEqual(w.Account, account):
		return "its owner's account has changed"
	}
	return ""
}

// fillOne makes one standby of those that are lacking, and reports whether it has.
func (m *Manager) fillOne(ctx context.Context) bool {
	if m.cfg.Busy != nil && m.cfg.Busy() {
		return false
	}
	m.mu.Lock()
	key, r, lacking := m.lackingLocked(ctx)
	m.mu.Unlock()
	if !lacking {
		return false
	}
	r.Launch = "standby-" + strings.ToLower(rand.Text())
	r, err := m.examined(ctx, key.hub, r)
	if err == nil {
		err = m.enterStandby(ctx, key, r)
	}
	if err == nil {
		return true
	}
	if ctx.Err() == nil {
		m.log.Debug("no standby is made", "kernel", key.name, "owner", key.user, "err", err)
	}
	return false
}

// lackingLocked finds whose next kernel has no standby though it may, and what she asked for. One of her kernels that is still starting goes
// first.
func (m *Manager) lackingLocked(ctx context.Context) (key poolKey, r SessionRequest, lacking bool) {
	now := time.Now()
	for key, p := range m.pools.of {
		if now.Before(p.notUntil) || m.comingLocked(key) {
			continue
		}
		all := m.standbysLocked(func(e *entry) bool { return e.Standby == key.name })
		if slices.ContainsFunc(all, func(e *entry) bool { return e.pool() == key }) {
			continue
		}
		if len(all) < p.most {
			return key, p.request, true
		}
		if now.Sub(all[0].Created) >= standbyTurn && all[0].Created.Before(p.used) {
			m.standDownLocked(ctx, all[0], "another user is to have one")
		}
	}
	return poolKey{}, SessionRequest{}, false
}

// comingLocked reports whether a kernel of a user's is not up yet.
func (m *Manager) comingLocked(key poolKey) bool {
	for _, e := range m.index.owned[key.owner] {
		if e.Kind == Kernel && e.Standby == "" && e.Phase.Active() && e.Phase != Running && e.Phase != Stopping {
			return true
		}
	}
	return false
}

// enterStandby saves a new standby and leases what it needs, if there is room for it that nobody waits for. It is saved before it holds anything,
// as all workloads are: where a lease was saved and not confirmed, its record is known, and goes.
func (m *Manager) enterStandby(ctx context.Context, key poolKey, r SessionRequest) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pools.of[key] == nil || m.anybodyWaitsLocked() {
		return errs.New(errs.NoCapacity, "somebody waits")
	}
	r.Spec.GPU = m.InGroup(r.Spec.GPU, key.hub, r.User)
	e := newEntry(m.sessionOf(key.hub, r))
	g, lacks := m.roomLocked(e)
	if lacks != "" || g.lender != "" {
		return errs.New(errs.NoCapacity, "there is no room: %s", lacks)
	}
	m.turn++
	err := m.changeLocked(ctx, e, func(e *entry) {
		e.Standby, e.Launch, e.Want, e.Phase, e.Started, e.Turn = key.name, r.Launch, WantRunning, Pending, time.Now(), m.turn
		e.secrets, e.Sealed = control.Env{}, m.seal(e.ID, r.Launch, nil)
	})
	if err != nil {
		return err
	}
	return m.changeLocked(ctx, e, func(e *entry) { e.Phase, e.Slice = Leased, g.slice })
}

// anybodyWaitsLocked reports whether anybody waits for something of this host.
func (m *Manager) anybodyWaitsLocked() bool {
	for l := range m.index.lines {
		if !m.ledger.afar[l.backend] && m.headLocked(l) != nil {
			return true
		}
	}
	return false
}
