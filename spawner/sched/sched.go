// Package sched decides who has what next: the lines in which workloads wait, fair share among users, quotas, the
// capacity of backends, leases of slices of GPUs, backoff from backends that take nothing, and estimates of waiting
// times.
//
// Promises: what it knows follows from the records that it is told of (Put, Drop) and from what their owners may have
// (Allow). It holds no lease of its own that could be lost: a lease is a saved record of a phase that holds something,
// so saving the phase is saving the lease. It decides and never acts: no record is changed here.
//
// It has no lock, does no I/O and starts nothing. Whoever owns the records calls it under their lock; methods that say
// "reads only" may be called by several at once who hold it for reading.
package sched

import (
	"maps"
	"slices"
	"time"

	"slipway/internal/gpu"
	"slipway/spawner"
)

// GPUs are the GPUs of this host. The records say who holds what; GPUs knows what there is. All methods are quick and
// do no I/O.
type GPUs interface {
	// Place finds a place for r beside what is held; lacks says in words why there is none now. A held slice without a
	// mode takes the whole GPU out, whatever that is shared as.
	Place(r gpu.Request, held []gpu.Slice) (s gpu.Slice, lacks string)
	// Asked notes that r was asked for, whether or not it can be had now.
	Asked(r gpu.Request)
	// Never says in words why r can never be had of these GPUs, whoever holds what; empty when it can.
	Never(r gpu.Request) string
	// Count says how many of r could be had now, and on empty GPUs.
	Count(r gpu.Request, held []gpu.Slice) (free, most int)
}

// Config is what a Scheduler goes by.
type Config struct {
	Capacity map[string]spawner.Capacity // by backend, and of spawner.Host; what is not in it is not limited
	Remote   map[string]bool             // by backend, of which each is in it: its workloads run on other hosts
	GPUs     GPUs                        // nil: this host has none
	// Lends reports whether a session that holds a slice lets a job have it for a while. Nil: none does.
	Lends func(session spawner.ID) bool
	// SessionsFirst has no new job of this host given what a session waits for, whoever has asked first.
	SessionsFirst bool
}

// Scheduler knows who holds and who waits for what.
type Scheduler struct {
	cfg         Config
	work        map[spawner.ID]*spawner.Workload
	turn        int64 // the last that was given
	lines       lines
	waits       dependencies
	orders      fairshareOrders
	ledger      ledger
	slices      sliceBook
	suspects    gpuSuspects
	backoffs    backoffs
	completions map[line]completions

	shares     shares
	hours      hours
	allowances map[spawner.Principal]spawner.Allowance // of those who have jobs
	jobs       map[spawner.Principal]int               // active ones
	standbys   map[spawner.ID]bool
	unsaved    map[spawner.Principal]bool // of whom something has been counted that is not saved
}

// New returns a Scheduler that knows of no record yet.
func New(cfg Config) *Scheduler {
	return &Scheduler{
		cfg: cfg, work: map[spawner.ID]*spawner.Workload{}, lines: newLines(), waits: newDependencies(),
		ledger: newLedger(cfg.Capacity, cfg.Remote), slices: sliceBook{},
		suspects: gpuSuspects{}, backoffs: backoffs{}, completions: map[line]completions{}, shares: newShares(halfLife),
		hours:      newHours(),
		allowances: map[spawner.Principal]spawner.Allowance{}, jobs: map[spawner.Principal]int{},
		standbys: map[spawner.ID]bool{},
		unsaved:  map[spawner.Principal]bool{},
	}
}

// NextTurn returns a turn behind all that were given: of two who wait in one line the one with the lower turn goes
// first.
func (s *Scheduler) NextTurn() int64 {
	s.turn++
	return s.turn
}

// Put takes in a record that was saved, which was before until now; the zero before is that of a new one. The Scheduler
// keeps w, which its owner changes before the next Put of it. It returns who waited for this one to be done, and is to
// be looked at, and whether somebody who waits for room may go now.
func (s *Scheduler) Put(before spawner.Workload, w *spawner.Workload, now time.Time) (look []spawner.ID, wake bool) {
	s.turn = max(s.turn, w.Turn)
	if before.ID != "" {
		s.take(before)
	}
	s.work[w.ID] = w
	if w.Standby != "" {
		s.standbys[w.ID] = true
	}
	if w.Kind.Batch() && w.Phase.Active() {
		s.jobs[w.Principal()]++
		s.shares.meet(*w, now)
	}
	if w.InQueue() {
		s.lines.enter(*w)
	}
	look = s.waiters(s.waits.put(&before, w))
	s.hold(w, now)
	freed := holds(before) && !w.Phase.Active()
	if freed {
		s.completions[lineOf(before)] = s.completions[lineOf(before)].add(now)
	}
	if w.Phase != spawner.Leased && w.Phase != spawner.Starting {
		s.backoffs.left(associationOf(*w), w.ID, freed, now)
	}
	return look, before.InQueue() && !w.InQueue() || freed || before.Slice != nil && w.Slice == nil
}

// holds reports whether a workload has resources.
func holds(w spawner.Workload) bool { return w.Phase.Active() && w.Phase != spawner.Pending }

// hold makes the books agree with what w holds now.
func (s *Scheduler) hold(w *spawner.Workload, now time.Time) {
	holds := holds(*w)
	if holds {
		s.ledger.enter(*w)
		s.slices.enter(*w)
	} else {
		s.pay(w.ID, now)
		s.ledger.remove(*w)
		s.slices.remove(w.ID)
	}
	if holds && w.Kind.Batch() {
		s.shares.hold(*w, s.ledger.part(*w), now)
	} else if s.shares.drop(w.ID, now) {
		s.unsaved[w.Principal()] = true
	}
}

// take forgets where a record stood.
func (s *Scheduler) take(w spawner.Workload) {
	delete(s.standbys, w.ID)
	if w.Kind.Batch() && w.Phase.Active() {
		if s.jobs[w.Principal()]--; s.jobs[w.Principal()] == 0 {
			delete(s.jobs, w.Principal())
		}
	}
	if w.InQueue() {
		s.lines.leave(w)
	}
}

// Drop forgets a record that was deleted.
func (s *Scheduler) Drop(w spawner.Workload) {
	s.take(w)
	s.waits.drop(&w)
	s.ledger.remove(w)
	s.slices.remove(w.ID)
	delete(s.work, w.ID)
}

// LearnCompletions takes in when workloads have ended that an earlier run of the service has seen, for estimates.
func (s *Scheduler) LearnCompletions(ended []spawner.Workload) {
	slices.SortFunc(ended, func(a, b spawner.Workload) int { return a.Outcome.At.Compare(b.Outcome.At) })
	for _, w := range ended {
		s.completions[lineOf(w)] = s.completions[lineOf(w)].add(w.Outcome.At)
	}
}

// Heads returns who is next in each line in which somebody waits: room of one kind may be what another line waits for.
func (s *Scheduler) Heads() (ids []spawner.ID) {
	for l := range s.lines.byAge {
		if w := s.head(l); w != nil {
			ids = append(ids, w.ID)
		}
	}
	return ids
}

// IsHead reports whether w is next in its line. Reads only.
func (s *Scheduler) IsHead(w *spawner.Workload) bool {
	first := s.head(lineOf(*w))
	return first != nil && first.ID == w.ID
}

// Use returns what is held of a backend, or of spawner.Host. Reads only.
func (s *Scheduler) Use(backend string) spawner.Capacity { return s.ledger.use(backend) }

// Capacity returns what there is, by backend and of spawner.Host; what is not in it is not limited. It does not change.
func (s *Scheduler) Capacity() map[string]spawner.Capacity { return s.ledger.capacity }

// Users returns who has active jobs. Reads only.
func (s *Scheduler) Users() []spawner.Principal { return slices.Collect(maps.Keys(s.jobs)) }
