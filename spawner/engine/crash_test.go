package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/gpu"
	"slipway/internal/testenv"
	"slipway/spawner"
	"slipway/spawner/engine"
	"slipway/spawner/spawnertest"
)

// fuse kills the service at its nth step: a write of the store, or a call of the GPUs or of a backend. What it calls
// afterwards has no effect, as of a process that is not there any more.
type fuse struct {
	mu    sync.Mutex
	left  int           // steps until it blows; negative: never
	after bool          // the last step is done, and only its answer is lost
	lie   bool          // the last step fails though it is done, and the service goes on, to be killed later
	dead  bool          // it has blown
	blown chan struct{} // closed when it blows
}

var errDead = errors.New("killed")

// step does what a step does, unless the fuse is in the way.
func (f *fuse) step(do func() error) error {
	f.mu.Lock()
	if f.dead {
		f.mu.Unlock()
		return errDead
	}
	f.left--
	blows := f.left == 0
	if blows {
		f.dead = !f.lie
		close(f.blown)
	}
	f.mu.Unlock()
	if !blows {
		return do()
	}
	if f.after || f.lie {
		_ = do() // what becomes of it nobody hears
	}
	return errDead
}

// The parts of the service, each behind the fuse.
type (
	fusedStore struct {
		engine.Store
		*fuse
	}
	fusedGPUs struct {
		*spawnertest.GPUs
		*fuse
	}
	fusedBackend struct {
		*spawnertest.Fake
		*fuse
	}
)

func (f fusedStore) Put(ctx context.Context, bucket, key string, value any) error {
	return f.step(func() error { return f.Store.Put(ctx, bucket, key, value) })
}

func (f fusedStore) PutAll(ctx context.Context, bucket string, values map[string]any) error {
	return f.step(func() error { return f.Store.PutAll(ctx, bucket, values) })
}

func (f fusedStore) Delete(ctx context.Context, bucket, key string) error {
	return f.step(func() error { return f.Store.Delete(ctx, bucket, key) })
}

func (f fusedGPUs) Realise(ctx context.Context, holder string, s gpu.Slice) (b gpu.Binding, err error) {
	err = f.step(func() error { b, err = f.GPUs.Realise(ctx, holder, s); return err })
	return b, err
}

func (f fusedGPUs) Part(ctx context.Context, holder string, s gpu.Slice) error {
	return f.step(func() error { return f.GPUs.Part(ctx, holder, s) })
}

func (f fusedGPUs) Release(holder string, s gpu.Slice) {
	_ = f.step(func() error { f.GPUs.Release(holder, s); return nil })
}

func (f fusedGPUs) Condemn(s gpu.Slice, why string) {
	_ = f.step(func() error { f.GPUs.Condemn(s, why); return nil })
}

func (f fusedBackend) Start(ctx context.Context, l spawner.Launch) error {
	return f.step(func() error { return f.Fake.Start(ctx, l) })
}

func (f fusedBackend) Stop(ctx context.Context, id spawner.ID, grace time.Duration) error {
	return f.step(func() error { return f.Fake.Stop(ctx, id, grace) })
}

func (f fusedBackend) Remove(ctx context.Context, id spawner.ID) error {
	return f.step(func() error { return f.Fake.Remove(ctx, id) })
}

// fated is a service with a GPU of two parts that a fuse kills once, and that is started again then.
type fated struct {
	*service
	gpus    *spawnertest.GPUs
	records *watched
	fuse    *fuse
	begin   func(*fuse) // starts the service, with a fuse in it
}

func newFated(t *testing.T, f *fuse) *fated {
	s := &fated{service: newService(t), gpus: spawnertest.NewGPUs(2), fuse: f}
	s.begin = s.live
	s.kill()
	s.gpus.Hold(func() []gpu.Lease { return s.engine.Leases() })
	if !testing.Verbose() {
		s.config.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	s.config.Capacity = map[string]spawner.Capacity{"docker": {CPUs: 8, Memory: 64 << 30, Count: 8}, "local": {CPUs: 8, Memory: 64 << 30, Count: 8}}
	s.records = &watched{t: t, lying: f.lie, capacity: s.config.Capacity, work: map[spawner.ID]spawner.Workload{}}
	s.records.ran = func() map[spawner.ID]spawner.Workload { return running(s.sessions, s.jobs) }
	s.records.seen = func(w spawner.Workload) spawner.Existence {
		return map[bool]*spawnertest.Fake{true: s.jobs, false: s.sessions}[w.Backend == "local"].Held()[w.ID]
	}
	s.config.Launch.SelfTest = 10 * time.Second
	s.config.Lend = engine.Lend{On: true, After: 5 * time.Minute, Recall: 30 * time.Second, Idle: func(string, gpu.Slice) (time.Time, bool) { return time.Time{}, true }}
	s.live(f)
	return s
}

// live starts the service, with a fuse in it.
func (s *fated) live(f *fuse) {
	s.config.Store, s.config.GPUs = fusedStore{s.records, f}, fusedGPUs{s.gpus, f}
	s.config.Backends = []spawner.Backend{fusedBackend{s.sessions, f}, fusedBackend{s.jobs, f}}
	s.start()
}

// try repeats a call as the Hub and users do, also to the next service when this one was killed.
func (s *fated) try(call func() error) {
	s.t.Helper()
	for range 60 {
		if err := call(); err == nil {
			return
		}
		s.mourn()
		time.Sleep(5 * time.Second)
	}
	s.t.Fatal("it never works again")
}

// mourn starts the service again if it was killed.
func (s *fated) mourn() {
	s.fuse.mu.Lock()
	dead := s.fuse.dead || s.fuse.lie && s.fuse.left <= 0
	s.fuse.mu.Unlock()
	if dead {
		s.kill()
		time.Sleep(time.Minute)
		s.fuse = &fuse{left: -1, blown: make(chan struct{})}
		s.begin(s.fuse)
	}
}

// wait waits until a workload is in one of some phases, whoever runs the service meanwhile.
func (s *fated) wait(id spawner.ID, phases ...spawner.Phase) (w spawner.Workload) {
	s.t.Helper()
	for range 600 {
		s.mourn()
		w, _ = s.Get(s.t.Context(), admin, id)
		for _, p := range phases {
			if w.Phase == p {
				return w
			}
		}
		time.Sleep(time.Second)
	}
	s.t.Fatalf("%s is %s, wanted %s, outcome %+v", id, w.Phase, w.Want, w.Outcome)
	return w
}

func (s *fated) ask(r spawner.SessionRequest) (w spawner.Workload) {
	s.try(func() (err error) { w, err = s.StartSession(s.t.Context(), hub, r); return err })
	return w
}

func (s *fated) end(id spawner.ID) {
	s.try(func() error { _, err := s.Stop(s.t.Context(), admin, id); return err })
	s.wait(id, spawner.Stopped)
}

// rest lets time pass, whoever runs the service meanwhile.
func (s *fated) rest(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(30 * time.Second) {
		s.mourn()
	}
}

// atRest looks whether nothing is left of what was leased.
func (s *fated) atRest() {
	s.t.Helper()
	s.mourn()
	time.Sleep(time.Minute)
	s.mourn()
	synctest.Wait()
	s.gpus.Reclaim()
	if used := s.gpus.InUse(); len(used) > 0 || len(s.engine.Leases()) > 0 || len(running(s.sessions, s.jobs)) > 0 {
		s.t.Errorf("left: in use %v, leases %v", used, s.engine.Leases())
	}
	for _, f := range s.gpus.Faults() {
		s.t.Error(f)
	}
}

// TestCrashAtEveryStep kills the service at each of its steps, and has each of them fail though it was done: a start, a
// stop, a bad part and a loan come to their end all the same, and no part ever has two owners.
func TestCrashAtEveryStep(t *testing.T) {
	lives := map[string]func(*fated){
		"start and stop": func(s *fated) {
			w := s.ask(onGPU("alice", "one"))
			if w = s.wait(w.ID, spawner.Running, spawner.Stopped); w.Phase == spawner.Running && w.Slice == nil {
				s.t.Errorf("it runs without a slice")
			}
			s.end(w.ID)
			w = s.ask(onGPU("alice", "two"))
			s.wait(w.ID, spawner.Running, spawner.Stopped)
			s.end(w.ID)
		},
		"bad part": func(s *fated) {
			s.gpus.Rot(0, "in use by another client")
			w := s.ask(onGPU("alice", "one"))
			if w = s.wait(w.ID, spawner.Running, spawner.Stopped); w.Phase == spawner.Running && w.Slice.Placement.Start != 1 {
				s.t.Errorf("it runs on %v", w.Slice)
			}
			s.end(w.ID)
		},
		"failed test": func(s *fated) {
			faults := 0
			s.crew.Boot(func(h *spawnertest.Hand) {
				if faults++; faults == 1 {
					h.Fault("wrong result of a kernel")
					return
				}
				h.Ready()
			})
			w := s.ask(onGPU("alice", "one"))
			s.wait(w.ID, spawner.Running, spawner.Stopped)
			s.end(w.ID)
		},
		"loan and recall":  lendAndRecall,
		"kernel stands by": takeStandby,
	}
	for name, life := range lives {
		atEveryStep(t, name, func(t *testing.T, f *fuse) {
			s := newFated(t, f)
			life(s)
			s.atRest()
		})
	}
}

// atEveryStep lives a life as often as it has steps, and has the service killed at another one each time: in one of
// three ways, and in each of them in the long mode.
func atEveryStep(t *testing.T, name string, life func(*testing.T, *fuse)) {
	every := testenv.Rounds(3, 1)
	for i, kind := range []string{"before", "after", "lie"} {
		t.Run(name+"/"+kind, func(t *testing.T) {
			for n := 1; ; n++ {
				if n%every != i%every || n == 1 && kind == "lie" { // a start that was saved and not confirmed is another one
					continue
				}
				f := &fuse{left: n, after: kind == "after", lie: kind == "lie", blown: make(chan struct{})}
				ok := t.Run(fmt.Sprint(n), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						f.blown = make(chan struct{})
						life(t, f)
					})
				})
				if f.left > 0 || !ok {
					t.Logf("%d steps", n-f.left)
					break
				}
			}
		})
	}
}

// lendAndRecall has both parts taken, one of them lent, called back, and left to the job at last.
func lendAndRecall(s *fated) {
	first, second := s.ask(onGPU("alice", "one")), s.ask(onGPU("carol", "two"))
	first, second = s.wait(first.ID, spawner.Running, spawner.Stopped), s.wait(second.ID, spawner.Running, spawner.Stopped)
	var job spawner.Workload
	s.try(func() (err error) {
		r := gpuJob(true)
		r.RequestID = "once"
		job, err = s.SubmitJob(s.t.Context(), bob, r)
		return err
	})
	for range 10 {
		for _, id := range []spawner.ID{first.ID, second.ID} {
			if s.crew.Hand(id) != nil {
				s.idles(id)
			}
		}
		time.Sleep(time.Minute)
		s.mourn()
	}
	s.wait(job.ID, spawner.Running, spawner.Stopped)
	s.try(func() error {
		s.Visit(first.ID, true)
		s.Visit(second.ID, true)
		if w, err := s.Get(s.t.Context(), admin, job.ID); err != nil || w.Lender != "" && w.Phase != spawner.Stopping {
			return fmt.Errorf("%w: still %s", errDead, w.Phase)
		}
		return nil
	})
	s.end(first.ID)
	w := s.wait(job.ID, spawner.Running, spawner.Stopped)
	s.end(second.ID)
	if h := s.crew.Hand(w.ID); h != nil {
		h.Exit(0)
	}
	lent := first.Phase == spawner.Running && second.Phase == spawner.Running // else the job has had a part of its own
	if w = s.wait(w.ID, spawner.Stopped); lent && w.Moves == 0 && !w.Outcome.Failed {
		s.t.Errorf("it was never called back: %+v", w)
	}
}
