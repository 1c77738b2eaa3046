package engine_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/spawnertest"
)

// fusedPool is a pool behind the fuse.
type fusedPool struct {
	*spawnertest.Pool
	*fuse
}

// Start gives the error of a batch system that does not answer, when its answer is lost.
func (f fusedPool) Start(ctx context.Context, l spawner.Launch) error {
	err := f.step(func() error { return f.Pool.Start(ctx, l) })
	if errors.Is(err, errDead) {
		return errs.New(errs.Unavailable, "the batch system does not answer")
	}
	return err
}

func (f fusedPool) Stop(ctx context.Context, id spawner.ID, grace time.Duration) error {
	return f.step(func() error { return f.Pool.Stop(ctx, id, grace) })
}

func (f fusedPool) Remove(ctx context.Context, id spawner.ID) error {
	return f.step(func() error { return f.Pool.Remove(ctx, id) })
}

// doomed is a service with a pool of other hosts that a fuse kills once.
type doomed struct {
	fated
	far  *distant
	pool *spawnertest.Pool
}

func newDoomed(t *testing.T, f *fuse) *doomed {
	d := newDistant(t)
	s := &doomed{fated: fated{service: d.service, gpus: spawnertest.NewGPUs(1), fuse: f}, far: d, pool: d.pool}
	d.kill()
	if !testing.Verbose() {
		d.config.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	s.records = &watched{t: t, lying: f.lie, work: map[spawner.ID]spawner.Workload{}}
	s.records.ran = func() map[spawner.ID]spawner.Workload { return nil }
	s.records.seen = func(w spawner.Workload) spawner.Existence { return d.pool.Held()[w.ID] }
	s.begin = func(f *fuse) {
		d.config.Store = fusedStore{s.records, f}
		d.config.Backends = []spawner.Backend{d.sessions, d.jobs, fusedPool{d.pool, f}}
		d.parts.Keep = func(ctx context.Context, w spawner.Workload, r io.Reader) (digest string, err error) {
			err = f.step(func() error { digest, err = d.keepChanges(ctx, w, r); return err })
			return digest, err
		}
		d.start()
	}
	s.begin(f)
	return s
}

// change has a session change something, wherever it runs.
func (s *doomed) change(id spawner.ID, what string) {
	s.t.Helper()
	s.fated.wait(id, spawner.Running)
	if h := s.crew.Hand(id); h != nil {
		h.Change(what)
		return
	}
	s.t.Errorf("%s runs without an agent", id)
}

// rest looks whether nothing is left in the pool, and nothing that was changed is lost.
func (s *doomed) rest() {
	s.t.Helper()
	s.mourn()
	time.Sleep(2 * time.Minute)
	synctest.Wait()
	if held := s.pool.Held(); len(held) > 0 || len(s.pool.Lost()) > 0 {
		s.t.Errorf("in the pool %v, lost %v", held, s.pool.Lost())
	}
}

// TestRemoteCrashAtEveryStep kills the service at each of its steps: what is sent to other hosts is sent once, what has
// changed there is kept, and nothing is left behind.
func TestRemoteCrashAtEveryStep(t *testing.T) {
	lives := map[string]func(*doomed){
		"session": func(s *doomed) {
			w := s.ask(poolRequest("alice", "one"))
			s.change(w.ID, "numpy")
			s.end(w.ID)
			w = s.ask(poolRequest("alice", "two"))
			s.change(w.ID, "scipy")
			s.end(w.ID)
			if w = s.wait(w.ID, spawner.Stopped); w.Kept != "sha256:notebook+numpy+scipy" {
				s.t.Errorf("kept %q", w.Kept)
			}
		},
		"evicted session": func(s *doomed) {
			w := s.ask(poolRequest("alice", "one"))
			s.change(w.ID, "numpy")
			s.pool.Evict(w.ID, "", true)
			s.reaches(w.ID, func(w spawner.Workload) bool { return w.Phase == spawner.Running && w.Evictions == 1 })
			s.change(w.ID, "scipy")
			s.end(w.ID)
			if w = s.wait(w.ID, spawner.Stopped); w.Kept != "sha256:notebook+numpy+scipy" {
				s.t.Errorf("kept %q", w.Kept)
			}
		},
		"session that cannot be kept": func(s *doomed) {
			s.far.keep = func() error { return errs.New(errs.OverQuota, "no more") }
			w := s.ask(poolRequest("alice", "one"))
			s.change(w.ID, "numpy")
			s.end(w.ID)
			s.reaches(w.ID, func(w spawner.Workload) bool { return w.Unkept != "" })
			s.far.keep = nil
			w = s.ask(poolRequest("alice", "two"))
			s.reaches(w.ID, func(w spawner.Workload) bool { return w.Phase == spawner.Running && w.From == "sha256:notebook+numpy" })
			s.end(w.ID)
		},
		"jobs": func(s *doomed) {
			r := poolJob()
			r.RequestID = "once"
			s.pool.Fill(true)
			var jobs []spawner.Workload
			s.try(func() (err error) { jobs, err = s.SubmitScan(s.t.Context(), alice, r, points(2)); return err })
			s.reaches(jobs[0].ID, func(spawner.Workload) bool { return s.pool.Held()[jobs[0].ID] == spawner.Queued })
			s.try(func() error { return done(s.Hold(s.t.Context(), alice, jobs[0].ID)) })
			s.reaches(jobs[0].ID, func(w spawner.Workload) bool { return w.Phase == spawner.Pending && w.Held })
			s.try(func() error { return done(s.Release(s.t.Context(), alice, jobs[0].ID)) })
			s.pool.Fill(false)
			for _, j := range jobs {
				s.wait(j.ID, spawner.Running)
				h := s.crew.Hand(j.ID)
				h.Print("at work\n")
				h.Leave("result", "42")
				h.Exit(0)
				if w := s.wait(j.ID, spawner.Stopped); w.Outcome.Failed || w.Outcome.Tail != "at work" || s.readFile(j.ID, "result") != "42" {
					s.t.Errorf("%+v, result %q", w.Outcome, s.readFile(j.ID, "result"))
				}
				if w := s.wait(j.ID, spawner.Stopped); w.Evictions > 0 || w.Moves > 1 {
					s.t.Errorf("%d moves", w.Moves)
				}
			}
		},
		"jobs that are not taken at once": func(s *doomed) {
			r := poolJob()
			r.RequestID = "once"
			s.pool.Limit(1)
			var jobs []spawner.Workload
			s.try(func() (err error) { jobs, err = s.SubmitScan(s.t.Context(), alice, r, points(2)); return err })
			for range jobs {
				first := s.oneOf(jobs)
				s.crew.Hand(first.ID).Exit(0)
				if w := s.wait(first.ID, spawner.Stopped); w.Outcome.Failed || s.pool.Runs(first.ID) > 0 {
					s.t.Errorf("%+v", w.Outcome)
				}
			}
		},
	}
	for name, life := range lives {
		atEveryStep(t, name, func(t *testing.T, f *fuse) {
			s := newDoomed(t, f)
			life(s)
			s.rest()
		})
	}
}

// oneOf waits until one of jobs runs, whoever runs the service meanwhile.
func (s *doomed) oneOf(jobs []spawner.Workload) (first spawner.Workload) {
	s.t.Helper()
	s.reaches(jobs[0].ID, func(spawner.Workload) bool {
		for _, j := range jobs {
			if w, err := s.Get(s.t.Context(), admin, j.ID); err == nil && w.Phase == spawner.Running && s.crew.Hand(w.ID) != nil {
				first = w
			}
		}
		return first.ID != ""
	})
	return first
}

// done takes a repetition of what was done before its answer was lost for success.
func done(_ spawner.Workload, err error) error {
	if errs.Is(err, errs.Conflict) {
		return nil
	}
	return err
}

// reaches waits for something of a workload, whoever runs the service meanwhile.
func (s *doomed) reaches(id spawner.ID, ok func(spawner.Workload) bool) {
	s.t.Helper()
	w := spawner.Workload{}
	for range 600 {
		s.mourn()
		var err error
		if w, err = s.Get(s.t.Context(), admin, id); err == nil && ok(w) {
			return
		}
		time.Sleep(time.Second)
	}
	s.t.Fatalf("%s is %s, %+v", id, w.Phase, w.Outcome)
}
