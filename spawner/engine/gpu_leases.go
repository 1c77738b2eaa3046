package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"slipway/internal/errs"
	"slipway/internal/gpu"
	"slipway/spawner"
)

// sliceBook is the ledger of GPUs: who holds which slice. Like the ledger of processors it holds nothing of its own: a slice in a
// saved record of a workload that is active and not pending is a lease. The Manager's lock guards it.
type sliceBook map[spawner.ID]sliceEntry

// sliceEntry is one line of the book.
type sliceEntry struct {
	gpu.Slice
	since  time.Time
	lender spawner.ID // the session that the slice was borrowed from; empty: it is the holder's own
	// borrower is the job that has the slice meanwhile, once it is known: to look for it each time would cost the square of all leases.
	borrower spawner.ID
}

func (b sliceBook) enter(w spawner.Workload) {
	if w.Slice == nil {
		b.remove(w.ID)
		return
	}
	if _, known := b[w.ID]; known {
		return
	}
	e := sliceEntry{Slice: *w.Slice, since: w.Since, lender: w.Lender}
	e.borrower = b.lookForBorrower(w.ID, e.Slice) // records are read in any order
	b[w.ID] = e
	if lender := b[w.Lender]; b.lent(e) {
		lender.borrower = w.ID
		b[w.Lender] = lender
	}
}

func (b sliceBook) remove(id spawner.ID) {
	e := b[id]
	delete(b, id)
	if lender, holds := b[e.lender]; holds && lender.borrower == id {
		lender.borrower = b.lookForBorrower(e.lender, lender.Slice)
		b[e.lender] = lender
	}
}

func (b sliceBook) lookForBorrower(session spawner.ID, s gpu.Slice) spawner.ID {
	if session.OfJob() { // it does not lend
		return ""
	}
	for id, e := range b {
		if e.lender == session && e.Same(s) {
			return id
		}
	}
	return ""
}

// lent reports whether an entry is a sub-lease: its lender still holds that very place. When the lender has gone, whoever borrowed
// from it is the owner.
func (b sliceBook) lent(e sliceEntry) bool {
	lender, holds := b[e.lender]
	return e.lender != "" && holds && lender.Same(e.Slice)
}

// held returns every leased place once.
func (b sliceBook) held() []gpu.Slice { return b.heldBeside(nil) }

// heldBeside returns those that are not some workloads'.
func (b sliceBook) heldBeside(some []spawner.Workload) []gpu.Slice {
	list := make([]gpu.Slice, 0, len(b))
	for id, e := range b {
		if !b.lent(e) && !slices.ContainsFunc(some, func(w spawner.Workload) bool { return w.ID == id }) {
			list = append(list, e.Slice)
		}
	}
	return list
}

// borrower returns the job that has a session's slice meanwhile; empty: none has.
func (b sliceBook) borrower(session spawner.ID) spawner.ID { return b[session].borrower }

// Leases returns who holds what of the GPUs, in a lasting order.
func (m *Manager) Leases() []gpu.Lease {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var list []gpu.Lease
	for _, id := range slices.Sorted(maps.Keys(m.slices)) {
		if e := m.slices[id]; !m.slices.lent(e) {
			list = append(list, gpu.Lease{Holder: string(id), Slice: e.Slice, Since: e.since, Lent: string(m.slices.borrower(id)), As: string(e.lender)})
		}
	}
	return list
}

// GPUsChanged has those who wait looked at: a GPU may have come back, or gone.
func (m *Manager) GPUsChanged() {
	m.mu.RLock()
	defer m.mu.RUnlock()
	m.wakeHeadsLocked()
}

// grant is what a workload may have now.
type grant struct {
	slice  *gpu.Slice
	lender spawner.ID
}

// roomLocked finds what e asks for beside its turn; lacks says in words what is missing.
func (m *Manager) roomLocked(e *entry) (g grant, lacks string) {
	if lacks := m.ledger.lacks(e.Backend, e.Spec.Resources); lacks != "" || e.LocalGPU().None() {
		return g, lacks
	}
	if m.cfg.GPUs == nil {
		return g, "this host has no GPU"
	}
	slice, lacks := m.placeLocked(e)
	if lacks == "" {
		return grant{slice: &slice}, ""
	}
	if lender, slice := m.lenderLocked(e); lender != "" {
		return grant{slice: &slice, lender: lender}, ""
	}
	return g, lacks
}

// roomOnGPUsLocked narrows room down to what there is of GPUs beside what is held.
func (m *Manager) roomOnGPUsLocked(room *spawner.Room, g gpu.Request, held []gpu.Slice) {
	if m.cfg.GPUs == nil {
		room.Most, room.Free, room.Lacks = 0, 0, "this host has no GPU"
		return
	}
	free, most := m.cfg.GPUs.Count(g, held)
	room.Free, room.Most = least(room.Free, free), least(room.Most, most)
	if _, lacks := m.cfg.GPUs.Place(g, held); lacks != "" {
		room.Lacks = strings.TrimPrefix(room.Lacks+"; "+lacks, "; ")
	}
}

// checkGPU refuses what can never be had.
func (m *Manager) checkGPU(r gpu.Request) error {
	if r.None() {
		return nil
	}
	if m.cfg.GPUs == nil {
		return errs.New(errs.Missing, "%s is asked for, and this site has no GPU", r).With("leave the GPU out, or ask your administrator")
	}
	if why := m.cfg.GPUs.Never(r); why != "" {
		return errs.New(errs.OverQuota, "this can never start here: %s", why).With("`slipway gpus` lists what there is")
	}
	return nil
}

// askedLocked tells the GPUs what is asked for: they cut so that what is asked for often stays possible.
func (m *Manager) askedLocked(e *entry) {
	if !e.LocalGPU().None() && m.cfg.GPUs != nil {
		m.cfg.GPUs.Asked(e.Spec.GPU)
	}
}

// InGroup says in a request with whom a user shares a GPU that keeps nobody apart.
func (m *Manager) InGroup(r gpu.Request, hub string, user spawner.User) gpu.Request {
	if r.Mode != gpu.Shared {
		return r
	}
	if r.Group = ""; m.cfg.Group != nil {
		r.Group = m.cfg.Group(hub, user)
	}
	if r.Group == "" {
		r.Group = fmt.Sprintf("%s of %s", user, hub)
	}
	return r
}
