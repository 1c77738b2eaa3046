package sched

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"strings"

	"slipway/internal/units"
	"slipway/spawner"
)

// ledger is the book of who holds what. It holds no state of its own that could be lost: a lease is a workload whose
// saved phase is beyond Pending and not yet Stopped, so saving the phase is saving the lease, and the book is read back
// from the records.
type ledger struct {
	capacity map[string]spawner.Capacity
	held     map[string]map[spawner.ID]spawner.Resources // by backend
	sum      map[string]spawner.Capacity                 // of held
	of       map[string]map[spawner.Principal]int        // how many jobs of held are whose
	jobs     map[spawner.Principal]int                   // the same of all backends
	remote   map[string]bool                             // the backends whose workloads are not of this host
}

func newLedger(capacity map[string]spawner.Capacity, remote map[string]bool) ledger {
	return ledger{
		capacity: capacity, held: map[string]map[spawner.ID]spawner.Resources{}, sum: map[string]spawner.Capacity{},
		of: map[string]map[spawner.Principal]int{}, jobs: map[spawner.Principal]int{},
		remote: remote,
	}
}

// enter notes that w holds what its spec says of its backend.
func (l ledger) enter(w spawner.Workload) {
	l.remove(w)
	if l.held[w.Backend] == nil {
		l.held[w.Backend], l.of[w.Backend] = map[spawner.ID]spawner.Resources{}, map[spawner.Principal]int{}
	}
	l.held[w.Backend][w.ID] = w.Spec.Resources
	for _, of := range l.counts(w.Backend) {
		l.sum[of] = plus(l.sum[of], w.Spec.Resources, 1)
	}
	if w.Kind.Batch() {
		l.of[w.Backend][w.Principal()]++
		l.jobs[w.Principal()]++
	}
}

// counts returns the capacities of which workloads of a backend take.
func (l ledger) counts(backend string) []string {
	if l.remote[backend] {
		return []string{backend}
	}
	return []string{backend, spawner.Host}
}

// remove notes that w holds nothing any more.
func (l ledger) remove(w spawner.Workload) {
	backend := w.Backend
	r, ok := l.held[backend][w.ID]
	if !ok {
		return
	}
	delete(l.held[backend], w.ID)
	for _, of := range l.counts(backend) {
		if l.sum[of] = plus(l.sum[of], r, -1); l.sum[of].Count == 0 {
			delete(l.sum, of) // and with it what sums of decimal fractions have gone astray
		}
	}
	if w.Kind.Batch() {
		l.of[backend][w.Principal()]--
		l.jobs[w.Principal()]--
	}
	if l.of[backend][w.Principal()] == 0 {
		delete(l.of[backend], w.Principal())
	}
	if l.jobs[w.Principal()] == 0 {
		delete(l.jobs, w.Principal())
	}
}

// plus returns c with n times r added.
func plus(c spawner.Capacity, r spawner.Resources, n int) spawner.Capacity {
	return spawner.Capacity{CPUs: c.CPUs + float64(n)*r.CPUs, Memory: c.Memory + int64(n)*r.Memory, Count: c.Count + n}
}

// plus returns the ledger as it would be if some held n times more than they do: it is for looking alone.
func (l ledger) plus(n int, some []spawner.Workload) ledger {
	if len(some) == 0 {
		return l
	}
	l.sum = maps.Clone(l.sum)
	for _, w := range some {
		for _, of := range l.counts(w.Backend) {
			l.sum[of] = plus(l.sum[of], w.Spec.Resources, n)
		}
	}
	return l
}

// use sums what is held of backend.
func (l ledger) use(backend string) spawner.Capacity { return l.sum[backend] }

// lacks says in words what is missing for r on backend now; empty when it fits.
func (l ledger) lacks(backend string, r spawner.Resources) string {
	return cmp.Or(shortage(l.capacity[backend], l.use(backend), r), l.lacksHere(backend, r))
}

// lacksHere says in words what of the host is missing for r on backend now; empty when it fits, or the backend is not
// of this host.
func (l ledger) lacksHere(backend string, r spawner.Resources) string {
	if l.remote[backend] {
		return ""
	}
	return ofHost(shortage(l.capacity[spawner.Host], l.use(spawner.Host), r))
}

func ofHost(shortage string) string {
	if shortage == "" {
		return ""
	}
	return shortage + " on the whole host"
}

// together reports whether workloads of two backends take of one limited capacity.
func (l ledger) together(a, b string) bool {
	return a == b || !l.remote[a] && !l.remote[b] && l.capacity[spawner.Host] != spawner.Capacity{}
}

// room counts how many of r fit on backend when it is empty, and now; -1 when nothing limits it.
func (l ledger) room(backend string, r spawner.Resources) (most, free int) {
	most, free = -1, -1
	for _, of := range l.counts(backend) {
		most, free = least(
			most, fits(l.capacity[of], spawner.Capacity{}, r),
		), least(free, fits(l.capacity[of], l.use(of), r))
	}
	return most, free
}

// least returns the smaller of two numbers, of which -1 is no limit.
func least(a, b int) int {
	if a < 0 || b < 0 {
		return max(a, b)
	}
	return min(a, b)
}

// full reports whether a user may have no more of a kind on a backend now.
func (l ledger) full(c association) bool {
	most := l.capacity[c.backend].PerUser
	return most > 0 && c.jobs && l.of[c.backend][c.of] >= most
}

// lacksOwn says in words why a user may have no more of a kind on a backend now; empty when she may.
func (l ledger) lacksOwn(c association) string {
	if !l.full(c) {
		return ""
	}
	return fmt.Sprintf(
		"%d of the %d jobs that one user may have there at once are yours", l.of[c.backend][c.of],
		l.capacity[c.backend].PerUser,
	)
}

// neverFits says in words why r cannot fit even when backend is empty; empty when it can.
func (l ledger) neverFits(backend string, r spawner.Resources) string {
	never := shortage(l.capacity[backend], spawner.Capacity{}, r)
	if l.remote[backend] {
		return never
	}
	return cmp.Or(never, ofHost(shortage(l.capacity[spawner.Host], spawner.Capacity{}, r)))
}

func shortage(have, used spawner.Capacity, r spawner.Resources) string {
	var lacks []string
	// A millionth of a CPU is the rounding of decimal fractions, not a shortage.
	if have.CPUs > 0 && used.CPUs+r.CPUs > have.CPUs+1e-6 {
		lacks = append(
			lacks, fmt.Sprintf("%s asked, %g of %g free", FormatCPUs(r.CPUs), max(0, have.CPUs-used.CPUs), have.CPUs),
		)
	}
	if have.Memory > 0 && used.Memory+r.Memory > have.Memory {
		lacks = append(lacks, fmt.Sprintf("%s of memory asked, %s of %s free",
			units.MemoryWords(r.Memory), units.MemoryWords(
				max(0, have.Memory-used.Memory),
			), units.MemoryWords(have.Memory)))
	}
	if have.Count > 0 && used.Count >= have.Count {
		lacks = append(lacks, fmt.Sprintf("%d of %d places taken", used.Count, have.Count))
	}
	return strings.Join(lacks, "; ")
}

// fits counts how many times r fits into what is left; -1 when nothing limits it.
func fits(have, used spawner.Capacity, r spawner.Resources) int {
	most := math.MaxInt
	if have.CPUs > 0 && r.CPUs > 0 {
		most = min(most, int((have.CPUs-used.CPUs+1e-6)/r.CPUs))
	}
	if have.Memory > 0 && r.Memory > 0 {
		most = min(most, int((have.Memory-used.Memory)/r.Memory))
	}
	if have.Count > 0 {
		most = min(most, have.Count-used.Count)
	}
	if most == math.MaxInt {
		return -1
	}
	return max(most, 0)
}

// FormatCPUs returns a number of processors as people read it: "1 CPU", "2.5 CPUs".
func FormatCPUs(n float64) string {
	if n == 1 {
		return "1 CPU"
	}
	return fmt.Sprintf("%g CPUs", n)
}

// NeverFits says in words why r can never be had of a backend; empty when it can. It may be called without the lock.
func (s *Scheduler) NeverFits(backend string, r spawner.Resources) string {
	return s.ledger.neverFits(backend, r)
}
