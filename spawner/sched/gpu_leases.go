package sched

import (
	"maps"
	"slices"
	"strings"
	"time"

	"slipway/internal/errs"
	"slipway/internal/gpu"
	"slipway/spawner"
)

// sliceBook is the ledger of GPUs: who holds which slice. Like the ledger of processors it holds nothing of its own: a
// slice in a saved record of a workload that is active and not pending is a lease.
type sliceBook map[spawner.ID]sliceEntry

// sliceEntry is one line of the book.
type sliceEntry struct {
	gpu.Slice
	since  time.Time
	lender spawner.ID // the session that the slice was borrowed from; empty: it is the holder's own
	// borrower is the job that has the slice meanwhile, once it is known: to look for it each time would cost the
	// square of all leases.
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

// lent reports whether an entry is a sub-lease: its lender still holds that very place. When the lender has gone,
// whoever borrowed from it is the owner.
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

// disputed reports whether somebody else has the place of id too, and neither lends it to the other; or has borrowed it
// too.
func (b sliceBook) disputed(id spawner.ID) bool {
	e := b[id]
	for other, o := range b {
		if other == id || !o.clashes(e.Slice) {
			continue
		}
		if rivals := b.lent(e) == b.lent(o); rivals || e.lender != other && o.lender != id {
			return true
		}
	}
	return false
}

// clashes reports whether two leases cannot be at once.
func (e sliceEntry) clashes(s gpu.Slice) bool {
	switch {
	case e.GPU != s.GPU:
		return false
	case e.Mode != s.Mode:
		return true
	case s.Mode == gpu.MIG:
		a, b := e.Placement, s.Placement
		return a.Start < b.Start+b.Size && b.Start < a.Start+a.Size
	}
	return s.Mode == gpu.Whole
}

// Leases returns who holds what of the GPUs, in a lasting order. Reads only.
func (s *Scheduler) Leases() []gpu.Lease {
	var list []gpu.Lease
	for _, id := range slices.Sorted(maps.Keys(s.slices)) {
		if e := s.slices[id]; !s.slices.lent(e) {
			list = append(list, gpu.Lease{
				Holder: string(id), Slice: e.Slice, Since: e.since, Lent: string(s.slices.borrower(id)),
				As: string(e.lender),
			})
		}
	}
	return list
}

// Grant is what a workload may have now, beside processors and memory.
type Grant struct {
	Slice  *gpu.Slice // nil: no GPU was asked for
	Lender spawner.ID // the session of which it is borrowed; empty: it is the workload's own
}

// Vacancy finds what w asks for, whoever else waits; lacks says in words what is missing. Reads only.
func (s *Scheduler) Vacancy(w *spawner.Workload) (g Grant, lacks string) {
	if lacks := s.ledger.lacks(w.Backend, w.Spec.Resources); lacks != "" || w.LocalGPU().None() {
		return g, lacks
	}
	if s.cfg.GPUs == nil {
		return g, "this host has no GPU"
	}
	slice, lacks := s.place(w)
	if lacks == "" {
		return Grant{Slice: &slice}, ""
	}
	if lender, slice := s.lender(w); lender != "" {
		return Grant{Slice: &slice, Lender: lender}, ""
	}
	return g, lacks
}

// roomOnGPUs narrows room down to what there is of GPUs beside what is held.
func (s *Scheduler) roomOnGPUs(room *spawner.Room, g gpu.Request, held []gpu.Slice) {
	if s.cfg.GPUs == nil {
		room.Most, room.Free, room.Lacks = 0, 0, "this host has no GPU"
		return
	}
	free, most := s.cfg.GPUs.Count(g, held)
	room.Free, room.Most = least(room.Free, free), least(room.Most, most)
	if _, lacks := s.cfg.GPUs.Place(g, held); lacks != "" {
		room.Lacks = strings.TrimPrefix(room.Lacks+"; "+lacks, "; ")
	}
}

// CheckGPU refuses what can never be had.
func (s *Scheduler) CheckGPU(r gpu.Request) error {
	if r.None() {
		return nil
	}
	if s.cfg.GPUs == nil {
		return errs.New(errs.Missing, "%s is asked for, and this site has no GPU", r).
			With("leave the GPU out, or ask your administrator")
	}
	if why := s.cfg.GPUs.Never(r); why != "" {
		return errs.New(errs.OverQuota, "this can never start here: %s", why).With("`slipway gpus` lists what there is")
	}
	return nil
}

// Asked tells the GPUs what is asked for: they cut so that what is asked for often stays possible.
func (s *Scheduler) Asked(w *spawner.Workload) {
	if !w.LocalGPU().None() && s.cfg.GPUs != nil {
		s.cfg.GPUs.Asked(w.Spec.GPU)
	}
}

// lender finds an idle session whose slice would do for a job that may be put back in line.
func (s *Scheduler) lender(job *spawner.Workload) (spawner.ID, gpu.Slice) {
	if s.cfg.Lends == nil || job.Kind.Session() || !job.Spec.Preemptible {
		return "", gpu.Slice{}
	}
	for id, held := range s.slices {
		if s.work[id] != nil && held.borrower == "" && held.Satisfies(job.Spec.GPU) && !job.FoundBad(held.Slice) &&
			s.cfg.Lends(id) {
			return id, held.Slice
		}
	}
	return "", gpu.Slice{}
}

// StillHeld reports whether the place that a workload has left is held by another: by who lent it, or by who borrowed
// it.
func (s *Scheduler) StillHeld(w spawner.Workload) bool {
	for id, held := range s.slices {
		if id != w.ID && held.Same(*w.Slice) && (id == w.Lender || held.lender == w.ID) {
			return true
		}
	}
	return false
}

// Borrower returns the job that has a session's slice meanwhile; empty: none has. Reads only.
func (s *Scheduler) Borrower(session spawner.ID) spawner.ID { return s.slices.borrower(session) }

// BorrowedSince returns since when a job has a slice that its lender holds still; false: it has borrowed none. Reads
// only.
func (s *Scheduler) BorrowedSince(job spawner.ID) (since time.Time, borrowed bool) {
	held, holds := s.slices[job]
	return held.since, holds && s.slices.lent(held)
}

// Disputed reports whether somebody else has the place of id too: a store that fails in the middle may have saved a
// lease though it said that it had not.
func (s *Scheduler) Disputed(id spawner.ID) bool { return s.slices.disputed(id) }
