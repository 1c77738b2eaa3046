package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/internal/gpu"
	"slipway/internal/testenv"
	"slipway/spawner"
	"slipway/spawner/engine"
	"slipway/spawner/spawnertest"
)

// TestSoak has users, hubs, containers, agents, the disk and the service itself do anything at any time. What must
// always hold is looked at whenever a record is saved; then all trouble ends, and everything must come to rest. One
// seed again: -run 'TestSoak/seed_17$' -v.
func TestSoak(t *testing.T) {
	for seed := range testenv.Rounds(3, 60) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newSoak(t, uint64(seed)).run() })
		})
	}
}

// soak is one run.
type soak struct {
	*service
	pool          *spawnertest.Pool
	dice          *dice
	records       *watched
	gpus          *spawnertest.GPUs
	alive         context.Context // of this run of the service
	calls         sync.WaitGroup  // that are made to it
	announcements sync.WaitGroup
	ends          []func() // of trouble
	launch        int
}

// dice are thrown by several goroutines.
type dice struct {
	mu  sync.Mutex
	rng *rand.Rand
}

func (d *dice) n(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rng.IntN(n)
}

func (d *dice) upTo(most time.Duration) time.Duration {
	return time.Duration(d.n(int(most/time.Millisecond))) * time.Millisecond
}

// of throws for one of several.
func of[T any](d *dice, several ...T) T { return several[d.n(len(several))] }

// watched is a store that looks whether what is saved may be.
type watched struct {
	t        *testing.T
	capacity map[string]spawner.Capacity
	seen     func(spawner.Workload) spawner.Existence
	ran      func() map[spawner.ID]spawner.Workload // what runs, as it was launched
	mu       sync.Mutex
	full     bool
	lying    bool // it may fail though it has saved: then the next change has the same revision
	work     map[spawner.ID]spawner.Workload
	others   map[string]json.RawMessage // of other buckets, as bucket/key
}

func (s *watched) Put(_ context.Context, bucket, key string, value any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full {
		return errs.New(errs.NoSpace, "the disk is full")
	}
	if bucket != "workloads" {
		if s.others == nil {
			s.others = map[string]json.RawMessage{}
		}
		text, _ := json.Marshal(value)
		s.others[bucket+"/"+key] = text
		return nil
	}
	w, id := recordOf(value), spawner.ID(key)
	s.judge(s.work[id], w)
	s.work[id] = w
	s.add(w)
	return nil
}

// PutAll puts all or nothing: a full disk takes none.
func (s *watched) PutAll(ctx context.Context, bucket string, values map[string]any) error {
	for key, value := range values {
		if err := s.Put(ctx, bucket, key, value); err != nil {
			return err
		}
	}
	return nil
}

// Sync fails as Put does.
func (s *watched) Sync(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full {
		return errs.New(errs.NoSpace, "the disk is full")
	}
	return nil
}

// judge looks whether the records allow the next one.
func (s *watched) judge(before, w spawner.Workload) {
	if text, _ := json.Marshal(w); strings.Contains(string(text), "hunter2") {
		s.t.Errorf("a secret is saved: %s", text)
	}
	if before.Phase == spawner.Pending && w.Phase == spawner.Leased {
		if len(w.After) > 0 {
			s.t.Errorf("%s is leased before %v is done", w.ID, w.After)
		}
		for _, other := range s.work {
			if w.Kind != other.Kind || w.Kind == spawner.Job && (other.Owner != w.Owner || other.Hub != w.Hub) {
				continue // a session of a Remote goes before jobs, and whose jobs have had least go before others
			}
			if other.Backend == w.Backend && other.Spec.GPU.Mode == w.Spec.GPU.Mode && other.Phase == spawner.Pending && other.Standby == "" && other.Want == spawner.WantRunning && !other.Held && !other.BackingOff && len(other.After) == 0 && !other.Moving && other.Turn < w.Turn {
				s.t.Errorf("%s of turn %d goes before %s of turn %d", w.ID, w.Turn, other.ID, other.Turn)
			}
		}
	}
	if w.Attempt != before.Attempt && (before.ID != "" && w.Attempt != before.Attempt+1 || w.Phase != spawner.Pending || w.Outcome != nil || alive(s.seen(w))) {
		s.t.Errorf("%s: try %d after %d, %s", w.ID, w.Attempt, before.Attempt, w.Phase)
	}
	if before.Phase.Active() && before.Phase != spawner.Pending && (!w.Phase.Active() || w.Phase == spawner.Pending) && alive(s.seen(w)) {
		s.t.Errorf("%s is %s and %s", w.ID, w.Phase, s.seen(w))
	}
	if before.ID != "" && w.Rev != before.Rev+1 && !(s.lying && w.Rev == before.Rev) {
		s.t.Errorf("%s: revision %d after %d", w.ID, w.Rev, before.Rev)
	}
	s.judgeMove(before, w)
	if settled := w.Phase == spawner.Running && !w.Remote || !w.Phase.Active(); settled && len(w.Sealed) > 0 {
		s.t.Errorf("%s is %s and keeps its secrets", w.ID, w.Phase)
	}
}

// alive reports whether something runs, or may come to run by itself.
func alive(seen spawner.Existence) bool {
	return seen == spawner.Up || seen == spawner.Queued || seen == spawner.Held
}

// judgeMove looks whether a workload has its slice from the lease on and until it was seen gone.
func (s *watched) judgeMove(before, w spawner.Workload) {
	holds := w.Phase.Active() && w.Phase != spawner.Pending
	switch {
	case (w.Slice != nil) != (holds && !w.Remote && !w.Spec.GPU.None()):
		s.t.Errorf("%s is %s, asks for %s and holds %v", w.ID, w.Phase, w.Spec.GPU, w.Slice)
	case s.lying && w.Rev == before.Rev: // what the store has saved and denied was never begun
	case before.Slice != nil && w.Slice != nil && (!before.Slice.Same(*w.Slice) || before.Lender != w.Lender):
		s.t.Errorf("%s goes from %v of %q to %v of %q without having been seen gone", w.ID, before.Slice, before.Lender, w.Slice, w.Lender)
	case before.Slice != nil && w.Slice == nil && s.seen(w) == spawner.Up:
		s.t.Errorf("%s has left %v and runs", w.ID, before.Slice)
	case w.Lender != "" && (w.Slice == nil || w.Kind != spawner.Job || !w.Spec.Preemptible):
		s.t.Errorf("%s is %s and borrows from %s", w.ID, w.Phase, w.Lender)
	case w.Lender != "" && before.Lender == "":
		if l := s.work[w.Lender]; l.Phase != spawner.Running || l.Slice == nil || !l.Slice.Same(*w.Slice) {
			s.t.Errorf("%s borrows %v from %s, which is %s and holds %v", w.ID, w.Slice, w.Lender, l.Phase, l.Slice)
		}
	}
}

// oneOwner looks whether of each part there is one owner and one borrower at most, in the records and among what runs.
func oneOwner(t *testing.T, all map[spawner.ID]spawner.Workload, what string) {
	owners, borrowers := map[gpu.Placement]spawner.ID{}, map[gpu.Placement]spawner.ID{}
	for id, w := range all {
		if w.Slice == nil {
			continue
		}
		role, at := owners, w.Slice.Placement
		if l := all[w.Lender]; l.Slice != nil && l.Slice.Same(*w.Slice) {
			role = borrowers
		}
		if other := role[at]; other != "" {
			t.Errorf("%s: %s and %s both have part %d", what, other, id, at.Start)
		}
		role[at] = id
	}
}

// server reports whether w is one of its hub's: of one name a user has one at once.
func server(w spawner.Workload) bool { return w.Kind != spawner.Job && w.Kind != spawner.Kernel }

// add sums what is leased when w is saved.
func (s *watched) add(w spawner.Workload) {
	oneOwner(s.t, s.work, "the records")
	oneOwner(s.t, s.ran(), "what runs")
	var use spawner.Capacity
	for _, other := range s.work {
		if other.ID != w.ID && server(other) && server(w) && other.Phase.Active() && w.Phase.Active() &&
			other.Hub == w.Hub && other.Owner == w.Owner && other.Name == w.Name {
			s.t.Errorf("two active sessions of server %q of %s: %s is %s, %s is %s", w.Name, w.Owner, other.ID, other.Phase, w.ID, w.Phase)
		}
		if other.Backend == w.Backend {
			use = sum(use, other)
		}
	}
	if c, limited := s.capacity[w.Backend]; limited && (use.CPUs > c.CPUs || use.Memory > c.Memory || use.Count > c.Count) {
		s.t.Errorf("%s: %+v of %+v is leased when %s becomes %s", w.Backend, use, c, w.ID, w.Phase)
	}
}

// sum adds what w leases.
func sum(use spawner.Capacity, w spawner.Workload) spawner.Capacity {
	if w.Phase.Active() && w.Phase != spawner.Pending {
		use.CPUs += w.Spec.Resources.CPUs
		use.Memory += w.Spec.Resources.Memory
		use.Count++
	}
	return use
}

func (s *watched) Delete(_ context.Context, bucket, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full {
		return errs.New(errs.NoSpace, "the disk is full")
	}
	if delete(s.others, bucket+"/"+key); bucket == "workloads" {
		delete(s.work, spawner.ID(key))
	}
	return nil
}

func (s *watched) All(_ context.Context, bucket string) iter.Seq2[engine.Record, error] {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []engine.Record
	for name, text := range s.others {
		if key, of := strings.CutPrefix(name, bucket+"/"); of {
			all = append(all, engine.Record{Key: key, Value: text})
		}
	}
	for id, w := range s.work {
		if text, _ := json.Marshal(w); bucket == "workloads" {
			all = append(all, engine.Record{Key: string(id), Value: text})
		}
	}
	return func(yield func(engine.Record, error) bool) {
		for _, r := range all {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func (s *watched) fill(full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.full = full
}

func newSoak(t *testing.T, seed uint64) *soak {
	d := newDistant(t)
	s := &soak{service: d.service, pool: d.pool, dice: newDice(seed)}
	s.kill()
	d.keep = func() error {
		return of[error](s.dice, nil, nil, nil, nil, errs.New(errs.Unavailable, "the library is busy"), errs.New(errs.OverQuota, "no more"))
	}
	s.config.Capacity = map[string]spawner.Capacity{
		"docker": {CPUs: 3, Memory: 8 << 30, Count: 2}, "local": {CPUs: 8, Memory: 8 << 30, Count: 2},
	}
	s.records = &watched{t: t, capacity: s.config.Capacity, work: map[spawner.ID]spawner.Workload{}}
	s.gpus = spawnertest.NewGPUs(3)
	s.gpus.Hold(func() []gpu.Lease { return s.engine.Leases() })
	s.config.Limits.Retry = of(s.dice, 0, time.Second, 10*time.Second)
	s.config.GPUs, s.config.Launch.SelfTest = s.gpus, 10*time.Second
	s.config.Lend = engine.Lend{On: true, After: time.Minute, Recall: 30 * time.Second, Idle: func(string, gpu.Slice) (time.Time, bool) {
		return time.Time{}, s.dice.n(4) > 0
	}}
	s.records.ran = func() map[spawner.ID]spawner.Workload { return running(s.sessions, s.jobs) }
	s.records.seen = func(w spawner.Workload) spawner.Existence { return s.fakeOf(w).Held()[w.ID] }
	s.config.Store = s.records
	if !testing.Verbose() {
		s.config.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	s.config.AnnounceStart = func(ctx context.Context, w spawner.Workload, _ control.Env) {
		s.announcements.Add(1)
		defer s.announcements.Done()
		if events, err := s.Events(ctx, spawner.Caller{System: true}, w.ID, w.Launch, 0); err == nil {
			for range events {
			}
		}
	}
	s.crew.Boot(s.boot)
	s.begin()
	return s
}

// running returns what runs, as it was launched.
func running(fakes ...*spawnertest.Fake) map[spawner.ID]spawner.Workload {
	all := map[spawner.ID]spawner.Workload{}
	for _, f := range fakes {
		for id, seen := range f.Held() {
			if l, ok := f.Launched(id); ok && seen == spawner.Up {
				all[id] = l.Workload
			}
		}
	}
	return all
}

// begin starts the service.
func (s *soak) begin() {
	s.start()
	alive, end := context.WithCancel(context.Background())
	s.alive = alive
	killed := s.kill
	s.kill = func() { end(); killed(); s.calls.Wait() }
}

// boot is what an app does.
func (s *soak) boot(h *spawnertest.Hand) {
	switch s.dice.n(12) {
	case 0:
		h.Exit(1)
	case 1: // never answers
	case 4:
		h.Fault("wrong result of a kernel")
	case 2:
		time.AfterFunc(s.dice.upTo(time.Minute), h.Ready)
	case 3:
		h.Ready()
		time.AfterFunc(s.dice.upTo(time.Hour), func() { h.Exit(s.dice.n(2)) })
	default:
		h.Ready()
	}
	if s.dice.n(2) == 0 {
		h.Change("x")
	}
	if h.App().Ready == "" { // a job
		time.AfterFunc(s.dice.upTo(10*time.Minute), func() { h.Exit(0) })
	}
	h.Act(control.Activity{Asked: s.dice.n(4) > 0, Busy: s.dice.n(2), Quiet: -1})
}

func (s *soak) run() {
	for range 70 {
		s.step()
		if s.dice.n(3) > 0 {
			time.Sleep(s.dice.upTo(of(s.dice, time.Second, 10*time.Second, time.Minute, 10*time.Minute)))
		}
		if s.dice.n(4) == 0 {
			synctest.Wait()
			s.checkBooks()
		}
	}
	for _, end := range s.ends {
		end()
	}
	s.records.fill(false)
	s.gpus.Mend()
	s.pool.Fill(false)
	for _, w := range s.all() {
		s.crew.Join(w.ID)
		s.pool.Unhold(w.ID)
	}
	s.crew.Boot(func(h *spawnertest.Hand) {
		h.Ready()
		if h.App().Ready == "" {
			time.AfterFunc(time.Minute, func() { h.Exit(0) })
		}
	})
	s.calls.Wait()
	time.Sleep(45 * time.Minute)
	s.checkRest()
	s.clear()
}

// step does one thing of many.
func (s *soak) step() {
	steps := []func(){
		s.ask, s.ask, s.ask, s.ask, s.ask, s.submitOne, s.submitOne, s.stopOne, s.stopOne, s.stopOne, s.removeOne, s.visit, s.visit, s.keep,
		s.accident, s.accident, s.fault, s.fault, s.flap, s.reconcileHub, s.disk, s.revive, s.revive, s.trouble, s.trouble, s.calm, s.calm, s.calm,
		s.submitScan, s.retryOne, s.retryOne, s.reorder, s.reorder, s.mishap, s.mishap, s.mishap, s.mishap,
	}
	steps[s.dice.n(len(steps))]()
}

// ask asks for a start, from several requests at once now and then, some of which are given up.
func (s *soak) ask() {
	s.launch++
	r := request(of(s.dice, "alice", "bob", "carol", "dave", "eve"), of(s.dice, "", "", "gpu"), fmt.Sprint("launch", s.launch))
	r.Spec.Image, r.Fresh = of(s.dice, "notebook", "notebook", "ml"), s.dice.n(5) == 0
	r.Spec.Resources.CPUs = float64(1 + s.dice.n(3))
	if s.dice.n(2) == 0 {
		r.Spec.GPU = part()
	}
	if s.dice.n(2) == 0 {
		r.Spec.EventsURL = "http://hub/events"
	}
	if s.dice.n(2) == 0 {
		r.Spec.Life = spawner.Life{Idle: 12 * time.Minute, MaxAge: 40 * time.Minute, FirstConnect: 5 * time.Minute, Warning: 4 * time.Minute, MaxKeep: time.Hour}
	}
	if s.dice.n(2) == 0 {
		r.Backend = "pool"
	}
	for range 1 + s.dice.n(2) {
		ctx, cancel := context.WithTimeout(s.alive, time.Second+s.dice.upTo(10*time.Minute))
		s.calls.Go(func() {
			defer cancel()
			_, err := s.StartSession(ctx, hub, r)
			switch errs.KindOf(err) {
			case errs.Conflict, errs.Unavailable, errs.NoSpace:
			default:
				if err != nil {
					s.t.Errorf("start: %v", err)
				}
			}
		})
	}
}

func (s *soak) submitOne() {
	r := simpleJob()
	r.Retries = s.dice.n(3)
	if w, ok := s.some(); ok && s.dice.n(3) == 0 {
		r.After = []string{of(s.dice, string(w.ID), w.Scan)}
	}
	if s.dice.n(3) > 0 {
		r.GPU, r.Preemptible = part(), s.dice.n(3) > 0
	}
	_, err := s.SubmitJob(s.alive, of(s.dice, alice, bob), r)
	if len(r.After) > 0 { // it may be another's, a session's, or lost
		s.mayFail("submit", err)
	} else if err != nil && !errs.Is(err, errs.NoSpace) {
		s.t.Errorf("submit: %v", err)
	}
}

// retryOne has a job tried again.
func (s *soak) retryOne() {
	if w, ok := s.some(); ok && w.Kind == spawner.Job {
		_, err := s.Retry(s.alive, spawner.Caller{User: w.Owner, Hub: w.Hub}, w.ID, spawner.Retry{Of: anyEnd})
		s.mayFail("retry", err)
	}
}

// some returns some workload; false when there is none.
func (s *soak) some() (spawner.Workload, bool) {
	all := s.all()
	if len(all) == 0 {
		return spawner.Workload{}, false
	}
	return of(s.dice, all...), true
}

func (s *soak) all() []spawner.Workload {
	all, err := s.List(s.alive, spawner.Caller{System: true})
	if err != nil {
		s.t.Error(err)
	}
	return all
}

// mayFail takes the errors that a call may give of a full disk or of a workload that is not there any more, or not as
// it was.
func (s *soak) mayFail(what string, err error) {
	if err != nil && !errs.Is(err, errs.NoSpace) && !errs.Is(err, errs.NotFound) && !errs.Is(err, errs.Conflict) {
		s.t.Errorf("%s: %v", what, err)
	}
}

func (s *soak) stopOne() {
	w, ok := s.some()
	if !ok {
		return
	}
	var err error
	if w.Kind == spawner.Job || s.dice.n(2) == 0 {
		_, err = s.Stop(s.alive, admin, w.ID)
	} else {
		_, err = s.StopLaunch(s.alive, hub, w.Launch)
	}
	s.mayFail("stop", err)
}

func (s *soak) removeOne() {
	if w, ok := s.some(); ok {
		s.mayFail("remove", s.Remove(s.alive, admin, w.ID))
	}
}

func (s *soak) visit() {
	if w, ok := s.some(); ok {
		s.Visit(w.ID, s.dice.n(2) == 0)
	}
}

func (s *soak) keep() {
	if w, ok := s.some(); ok && w.Kind != spawner.Job && w.Spec.Life.MaxKeep > 0 {
		_, err := s.Keep(s.alive, admin, w.ID, time.Minute+s.dice.upTo(50*time.Minute))
		s.mayFail("keep", err)
	}
}

// fakeOf returns the backend of a workload.
func (s *soak) fakeOf(w spawner.Workload) *spawnertest.Fake {
	switch w.Backend {
	case "local":
		return s.jobs
	case "pool":
		return s.pool.Fake
	default:
		return s.sessions
	}
}

// submitScan asks for some jobs on other hosts at once.
func (s *soak) submitScan() {
	_, err := s.SubmitScan(s.alive, of(s.dice, alice, bob), poolJob(), points(1+s.dice.n(4)))
	s.mayFail("scan", err)
}

// reorder has an owner hold, release or requeue a job.
func (s *soak) reorder() {
	w, ok := s.some()
	if !ok || w.Kind != spawner.Job {
		return
	}
	_, err := of(s.dice, s.Hold, s.Release, s.Release, s.Requeue)(s.alive, admin, w.ID)
	if !errs.Is(err, errs.Unavailable) {
		s.mayFail("reorder", err)
	}
}

// mishap is what other hosts and their batch system do.
func (s *soak) mishap() {
	w, ok := s.some()
	if !ok || w.Backend != "pool" {
		return
	}
	switch s.dice.n(8) {
	case 0:
		s.pool.Fill(true)
		time.AfterFunc(s.dice.upTo(30*time.Minute), func() { s.pool.Fill(false) })
	case 1:
		s.pool.Hold(w.ID, "its image is missing")
		time.AfterFunc(s.dice.upTo(30*time.Minute), func() { s.pool.Unhold(w.ID) })
	case 2:
		s.crew.Cut(w.ID)
		time.AfterFunc(s.dice.upTo(30*time.Minute), func() { s.crew.Join(w.ID) })
	case 3:
		s.pool.Exit(w.ID, s.dice.n(2))
	default:
		s.pool.Evict(w.ID, "a job of higher priority", s.dice.n(2) == 0)
	}
}

// accident happens to a container.
func (s *soak) accident() {
	w, ok := s.some()
	if !ok {
		return
	}
	switch f := s.fakeOf(w); s.dice.n(3) {
	case 0:
		f.Exit(w.ID, 3)
	case 1:
		f.OutOfMemory(w.ID)
	default:
		if f.Vanish(w.ID); w.Remote {
			s.pool.Vanish(w.ID) // with what came back of it
		}
	}
}

// fault makes a backend refuse, hang or lose an answer.
func (s *soak) fault() {
	f := spawnertest.Fault{
		Op:   of(s.dice, spawnertest.Start, spawnertest.Observe, spawnertest.Stop, spawnertest.Remove, spawnertest.List),
		Step: of(s.dice, spawnertest.Before, spawnertest.Halfway, spawnertest.After), Times: of(s.dice, 1, 2, 5, spawnertest.Always),
	}
	if s.dice.n(2) == 0 {
		hold := make(chan struct{})
		f.Hold = hold
		end := sync.OnceFunc(func() { close(hold) })
		time.AfterFunc(s.dice.upTo(2*time.Minute), end)
		s.ends = append(s.ends, end)
	}
	withdraw := of(s.dice, s.sessions, s.jobs, s.pool.Fake).Inject(f)
	time.AfterFunc(s.dice.upTo(5*time.Minute), withdraw)
	s.ends = append(s.ends, withdraw)
}

// trouble is with the GPU: a part cannot be made, or the driver does not answer. It ends at some time.
func (s *soak) trouble() {
	if s.dice.n(2) == 0 {
		s.gpus.Rot(s.dice.n(3), "in use by another client")
	} else {
		s.gpus.Fall()
	}
	time.AfterFunc(s.dice.upTo(5*time.Minute), s.gpus.Mend)
}

// calm is a time in which nobody works in most sessions, and a job waits that may borrow.
func (s *soak) calm() {
	r := simpleJob()
	r.GPU, r.Preemptible = part(), true
	_, err := s.SubmitJob(s.alive, bob, r)
	s.mayFail("submit", err)
	for _, w := range s.all() {
		if h := s.crew.Hand(w.ID); h != nil && w.Kind != spawner.Job && s.dice.n(4) > 0 {
			h.Act(control.Activity{Asked: true, Quiet: -1})
		}
	}
	time.Sleep(s.dice.upTo(5 * time.Minute))
	for _, l := range s.engine.Leases() {
		if l.Lent != "" && s.dice.n(3) > 0 {
			s.Visit(spawner.ID(l.Holder), true)
		}
	}
}

// flap takes an agent's link down for a while.
func (s *soak) flap() {
	w, ok := s.some()
	if !ok || s.crew.Hand(w.ID) == nil {
		return
	}
	s.engine.LinkChanged(s.alive, w.ID, false)
	time.Sleep(s.dice.upTo(time.Minute))
	if s.crew.Hand(w.ID) != nil {
		s.engine.LinkChanged(s.alive, w.ID, true)
	}
}

// reconcileHub is of a Hub that has forgotten some servers.
func (s *soak) reconcileHub() {
	r := spawner.Roster{Hub: "main", Asked: time.Now(), Age: time.Minute, Stop: true}
	for _, w := range s.all() {
		if s.dice.n(4) > 0 {
			r.Servers = append(r.Servers, spawner.Server{User: w.Owner, Name: w.Name})
		}
	}
	_, err := s.ReconcileHub(s.alive, r)
	s.mayFail("reconcile", err)
}

// disk is full for a while.
func (s *soak) disk() {
	s.records.fill(true)
	time.Sleep(s.dice.upTo(of(s.dice, time.Second, time.Minute)))
	s.records.fill(false)
}

// revive kills the service at any moment, and starts it again later.
func (s *soak) revive() {
	s.kill()
	if s.dice.n(2) == 0 {
		time.Sleep(s.dice.upTo(10 * time.Minute))
	}
	s.begin()
}

// checkBooks looks whether ledger and index agree with the workloads, and whether all that runs has a record.
func (s *soak) checkBooks() {
	use, known := map[string]spawner.Capacity{"docker": {}, "local": {}, "pool": {}}, map[spawner.ID]bool{}
	for _, w := range s.all() {
		use[w.Backend] = sum(use[w.Backend], w)
		known[w.ID] = true
		if w.Kind == spawner.Job {
			continue
		}
		if got, err := s.Launched(s.alive, hub, w.Launch); err != nil || got.ID != w.ID {
			s.t.Errorf("launch %s of %s leads to %s, %v", w.Launch, w.ID, got.ID, err)
		}
		if id, ok := s.Route("main", w.Spec.Prefix+"lab"); w.Phase.Active() && (!ok || id != w.ID) {
			s.t.Errorf("%s of %s leads to %s", w.Spec.Prefix, w.ID, id)
		}
	}
	if got := s.Stats().Use; !maps.Equal(got, use) {
		s.t.Errorf("the ledger has %+v, the workloads %+v", got, use)
	}
	s.checkLeases()
	s.checkChanges()
	for _, f := range []*spawnertest.Fake{s.sessions, s.jobs, s.pool.Fake} {
		for id := range f.Held() {
			if !known[id] {
				s.t.Errorf("%s has no record", id)
			}
		}
	}
}

// checkChanges looks whether anything that a session had changed on another host was removed before it was here.
func (s *soak) checkChanges() {
	for _, id := range s.pool.Lost() {
		if w, err := s.Get(s.alive, admin, id); err == nil && w.Want != spawner.WantGone {
			s.t.Errorf("what %s had changed is lost: it is %s, %+v", id, w.Phase, w.Outcome)
		}
	}
}

// checkLeases looks whether the book of slices says what the workloads do, and nothing is in use without a lease.
func (s *soak) checkLeases() {
	holders, leased := map[spawner.ID]gpu.Placement{}, map[spawner.ID]gpu.Placement{}
	for _, w := range s.all() {
		if w.Slice != nil {
			holders[w.ID] = w.Slice.Placement
		}
	}
	used := s.gpus.InUse()
	for _, l := range s.engine.Leases() {
		leased[spawner.ID(l.Holder)] = l.Slice.Placement
		if l.Lent != "" {
			leased[spawner.ID(l.Lent)] = l.Slice.Placement
		}
		delete(used, l.Slice.Placement.Start)
	}
	if !maps.Equal(holders, leased) {
		s.t.Errorf("the book has %v, the workloads %v", leased, holders)
	}
	if len(used) > 0 {
		s.t.Errorf("in use without a lease: %v", used)
	}
	for _, f := range s.gpus.Faults() {
		s.t.Error(f)
	}
}

// checkRest looks whether everything has come to where it belongs.
func (s *soak) checkRest() {
	synctest.Wait()
	s.checkBooks()
	if err := s.Ready(); err != nil {
		s.t.Error(err)
	}
	s.checkLine()
	for _, w := range s.all() {
		seen, err := s.fakeOf(w).Observe(s.alive, w.ID)
		up := seen.Existence == spawner.Up
		switch {
		case err != nil:
			s.t.Error(err)
		case w.Want == spawner.WantGone:
			s.t.Errorf("%s is to be gone and is %s", w.ID, w.Phase)
		case w.Phase == spawner.Running && up && w.Want == spawner.WantRunning, w.Phase == spawner.Stopped && !alive(seen.Existence) && w.Want == spawner.WantStopped:
			if events := s.events(w.ID, w.Launch); len(events) == 0 || !events[len(events)-1].Final && w.Kind != spawner.Job {
				s.t.Errorf("%s is %s, and its events do not end: %q", w.ID, w.Phase, messages(events))
			}
		case w.Phase == spawner.Pending && !alive(seen.Existence):
		default:
			s.t.Errorf("%s rests in %s, wanted %s, seen %s: %+v", w.ID, w.Phase, w.Want, seen.Existence, w.Outcome)
		}
	}
}

// checkLine looks whether anybody waits for what is free.
func (s *soak) checkLine() {
	for _, w := range s.all() {
		if w.Phase == spawner.Pending && !w.Held && s.Queue(w).Place == 0 && !s.goesOn(w.After) {
			s.t.Errorf("%s waits, though it is next and has room: %s", w.ID, s.Detail(w))
		}
	}
	s.checkTurns()
}

// goesOn reports whether any of the jobs and scans of these names has not ended.
func (s *soak) goesOn(names []string) bool {
	return slices.ContainsFunc(s.all(), func(w spawner.Workload) bool {
		return w.Phase.Active() && (slices.Contains(names, string(w.ID)) || w.Scan != "" && slices.Contains(names, w.Scan))
	})
}

// checkTurns looks whether of those that leave something to who came before, somebody really lacks something.
func (s *soak) checkTurns() {
	polite, short := 0, 0
	for _, w := range s.all() {
		switch q := s.Queue(w); {
		case w.Phase != spawner.Pending || q.Place != 1:
		case strings.HasPrefix(q.Lacks, "others go first"):
			polite++
		default:
			short++
		}
	}
	if polite > 0 && short == 0 {
		s.t.Errorf("%d wait for one another", polite)
	}
}

// clear removes everything, and looks whether who waits gets what comes free at once, and whether anything is left.
func (s *soak) clear() {
	for _, w := range s.all() {
		s.mayFail("remove", s.Remove(s.alive, admin, w.ID))
		time.Sleep(time.Second)
		synctest.Wait()
		s.checkLine()
	}
	time.Sleep(5 * time.Minute)
	synctest.Wait()
	if left := s.all(); len(left) > 0 {
		s.t.Errorf("not removed: %+v", left)
	}
	s.checkBooks()
	s.announcements.Wait()
	dirs, _ := os.ReadDir(s.config.Dir)
	if used := s.gpus.InUse(); len(used) > 0 || len(s.engine.Leases()) > 0 {
		s.t.Errorf("left over: %v in use, leases %v", used, s.engine.Leases())
	}
	if held := len(s.sessions.Held()) + len(s.jobs.Held()) + len(s.pool.Held()); held > 0 || len(dirs) > 0 || len(s.records.work) > 0 {
		s.t.Errorf("left over: %d in the backends, directories %v, records %v", held, dirs, s.records.work)
	}
}

func newDice(seed uint64) *dice { return &dice{rng: rand.New(rand.NewPCG(seed, 1))} }
