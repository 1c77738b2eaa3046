package engine_test

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/spawnertest"
)

// distant is a service with a pool of other hosts.
type distant struct {
	*service
	pool *spawnertest.Pool
	keep func() error // what Keep answers; nil: it keeps
	kept []string
}

func newDistant(t *testing.T) *distant {
	s := &distant{service: newService(t)}
	s.kill()
	s.pool = spawnertest.NewPool(spawnertest.Config{Name: "pool", StartTime: time.Second}, s.crew)
	s.config.Backends = append(s.config.Backends, s.pool)
	s.config.Launch.Uplink = func(_ context.Context, w spawner.Workload) (*control.Uplink, error) {
		return &control.Uplink{URL: "wss://slipway/api/v1/link", Token: "uplink of " + w.Run(), Image: w.Spec.Environment}, nil
	}
	s.parts.Base = func(_ context.Context, image string, tell func(string, int)) (string, error) {
		tell("Unpacking the image", 50)
		return "sha256:" + image, nil
	}
	s.parts.Keep = s.keepChanges
	s.start()
	t.Cleanup(func() {
		for _, f := range s.pool.Faults() {
			t.Error(f)
		}
	})
	return s
}

// keepChanges makes an environment whose digest tells what is in it.
func (s *distant) keepChanges(_ context.Context, w spawner.Workload, changes io.Reader) (string, error) {
	if s.keep != nil {
		if err := s.keep(); err != nil {
			return "", err
		}
	}
	b, err := io.ReadAll(changes)
	if err != nil || len(b) == 0 {
		return w.Spec.Environment, err
	}
	digest := w.Spec.Environment + "+" + string(b)
	s.kept = append(s.kept, digest)
	return digest, nil
}

func inPool(f func(*testing.T, *distant)) func(*testing.T) {
	return func(t *testing.T) { synctest.Test(t, func(t *testing.T) { f(t, newDistant(t)) }) }
}

// poolRequest asks for a session on another host.
func poolRequest(user, launch string) spawner.SessionRequest {
	r := request(user, "", launch)
	r.Backend = "pool"
	return r
}

func poolJob() spawner.JobRequest {
	return spawner.JobRequest{Spec: spawner.Spec{Environment: "ana", Argv: []string{"x"}}, Backend: "pool"}
}

func (s *distant) stop(id spawner.ID) spawner.Workload {
	s.t.Helper()
	if _, err := s.Stop(s.t.Context(), admin, id); err != nil {
		s.t.Fatal(err)
	}
	return s.reach(id, spawner.Stopped)
}

// again waits until a workload that has moved so often runs.
func (s *distant) again(id spawner.ID, moves int) spawner.Workload {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Minute)
	defer cancel()
	w, err := s.Await(ctx, admin, id, func(w spawner.Workload) bool { return w.Phase == spawner.Running && w.Moves == moves })
	if err != nil {
		s.t.Fatalf("%s after %d moves is %s: %+v", id, w.Moves, w.Phase, w.Outcome)
	}
	return w
}

// TestRemoteSession: from the queue to the first answer, to its end, and to the next start with what it had changed.
func TestRemoteSession(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		s.pool.Fill(true)
		w := s.startSession(poolRequest("alice", "one"))
		time.Sleep(3 * time.Hour) // no limit counts in the queue
		if w, _ := s.Get(t.Context(), alice, w.ID); w.Phase != spawner.Starting || s.Detail(w) != "Queued at pool: no slot is free" {
			t.Fatalf("%s: %s", w.Phase, s.Detail(w))
		}
		if why, err := s.Why(t.Context(), alice, w.ID); err != nil || why.Slots != 8 {
			t.Errorf("why: %+v, %v", why, err)
		}
		s.pool.Fill(false)
		w = s.reach(w.ID, spawner.Running)
		if w.Host != "node1" || w.From != "sha256:notebook" || s.crew.Hand(w.ID).App().Env["JUPYTERHUB_API_TOKEN"] != "hunter2-one" {
			t.Errorf("on %q from %q", w.Host, w.From)
		}
		l, _ := s.pool.Launched(w.ID)
		if l.SIF != "/envs/sha256:notebook.sif" || l.Uplink.Token != "uplink of one" || l.Uplink.Image != "sha256:notebook" || l.App != nil {
			t.Errorf("launched with %+v", l)
		}
		want := []string{
			"Asked for a session", "It is its turn: it asks pool for 1 CPU and 1 GiB of memory", "Unpacking the image", "Submitting it to pool",
			"Queued at pool: no slot is free", "Runs on node1", "Starting JupyterLab", "JupyterLab is ready (10800.0 s)",
		}
		if got := messages(s.events(w.ID, "one")); !slices.Equal(got, want) {
			t.Errorf("events:\n%q, want\n%q", got, want)
		}
		s.crew.Hand(w.ID).Change("numpy")
		if w = s.stop(w.ID); w.Kept != "sha256:notebook+numpy" || w.Outcome.Failed || len(s.pool.Held()) > 0 || len(w.Sealed) > 0 {
			t.Errorf("kept %q, outcome %+v, in the pool %v", w.Kept, w.Outcome, s.pool.Held())
		}
		again := s.startSession(poolRequest("alice", "two"))
		again = s.reach(again.ID, spawner.Running)
		if again.ID != w.ID || again.From != "sha256:notebook+numpy" {
			t.Errorf("%s starts from %q", again.ID, again.From)
		}
		s.crew.Hand(w.ID).Change("scipy")
		if w = s.stop(w.ID); w.Kept != "sha256:notebook+numpy+scipy" || len(s.pool.Lost()) > 0 {
			t.Errorf("kept %q, lost %v", w.Kept, s.pool.Lost())
		}
	})(t)
}

// TestEvictedSessionBeginsAnew: with its secrets, from what it had kept; also when the service was started again in
// between.
func TestEvictedSessionBeginsAnew(t *testing.T) {
	for _, kindly := range []bool{true, false} {
		inPool(func(t *testing.T, s *distant) {
			w := s.reach(s.startSession(poolRequest("alice", "one")).ID, spawner.Running)
			s.crew.Hand(w.ID).Change("numpy")
			if text := s.store.text(); strings.Contains(text, "hunter2") || !strings.Contains(text, "sealed") {
				t.Error("its secrets are not kept, or not sealed")
			}
			s.kill()
			s.pool.Evict(w.ID, "a job of higher priority", kindly)
			s.start()
			w = s.again(w.ID, 1)
			want := map[bool]string{true: "sha256:notebook+numpy", false: "sha256:notebook"}[kindly]
			if w.From != want || w.Host != "node2" || w.Evictions != 1 || w.Run() != "one.1" || s.crew.Hand(w.ID).App().Env["JUPYTERHUB_API_TOKEN"] != "hunter2-one" {
				t.Errorf("kindly %v: from %q on %s, evicted %d times, run %s", kindly, w.From, w.Host, w.Evictions, w.Run())
			}
			s.stop(w.ID)
		})(t)
	}
}

// TestEvictedTooOften: nobody is sent around for ever.
func TestEvictedTooOften(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		job := s.submit(alice, poolJob())
		for n := range 10 {
			s.again(job.ID, n)
			s.pool.Evict(job.ID, "the machine's owner is back", false)
		}
		s.again(job.ID, 10)
		s.pool.Evict(job.ID, "the machine's owner is back", false)
		w := s.reach(job.ID, spawner.Stopped)
		if !w.Outcome.Failed || w.Outcome.Reason != "it was evicted 11 times, last from node11" || len(s.pool.Held()) > 0 {
			t.Errorf("%+v", w.Outcome)
		}
	})(t)
}

// TestRemoteJobNeedsNoLink: all that it runs goes with it, and what it leaves comes back with its end.
func TestRemoteJobNeedsNoLink(t *testing.T) {
	for _, linked := range []bool{true, false} {
		inPool(func(t *testing.T, s *distant) {
			s.pool.Fill(true)
			r := poolJob()
			r.Env = map[string]string{"K": "1"}
			r.Files = map[string][]byte{"in": []byte("put")}
			job := s.submit(alice, r)
			s.reach(job.ID, spawner.Starting)
			if !linked {
				s.crew.Cut(job.ID)
			}
			s.pool.Fill(false)
			s.reach(job.ID, spawner.Running)
			if l, _ := s.pool.Launched(job.ID); l.App == nil || l.App.Env["K"] != "1" || l.App.Launch != job.Launch || l.SIF != "/envs/sha256:1234.sif" {
				t.Errorf("launched with %+v", l.App)
			}
			time.Sleep(2 * time.Hour)
			h := s.crew.Hand(job.ID)
			h.Print("at work\n")
			h.Leave("result", "42")
			h.Exit(3)
			w := s.reach(job.ID, spawner.Stopped)
			if o := w.Outcome; !o.Failed || o.ExitCode != 3 || o.Tail != "at work" || w.Host != "node1" || h.Launches() != 1 {
				t.Errorf("linked %v: %+v on %s", linked, o, w.Host)
			}
			if got := s.readFile(job.ID, "result"); got != "42" || len(s.pool.Held()) > 0 {
				t.Errorf("linked %v: result %q, in the pool %v", linked, got, s.pool.Held())
			}
		})(t)
	}
}

func (s *service) readFile(id spawner.ID, name string) string {
	r, _, err := s.File(s.t.Context(), admin, id, name)
	if err != nil {
		return err.Error()
	}
	defer r.Close()
	b, _ := io.ReadAll(r)
	return string(b)
}

// TestRemoteEnds: what happens to what ends in ways that nobody wants is told in plain words, and nothing is left.
func TestRemoteEnds(t *testing.T) {
	tests := []struct {
		name   string
		do     func(s *distant, id spawner.ID)
		reason string
	}{
		{"taken away", func(s *distant, id spawner.ID) { s.pool.Vanish(id) }, "it is gone from pool: it was removed outside Slipway"},
		{"killed without remains", func(s *distant, id spawner.ID) {
			s.pool.Die(id, spawner.Observation{ExitCode: 137, Reason: "out of memory", Remedy: "ask for more"})
		}, "out of memory"},
		{"killed silently", func(s *distant, id spawner.ID) { s.pool.Die(id, spawner.Observation{ExitCode: 9}) }, "its batch job ended with exit code 9"},
	}
	for _, job := range []bool{true, false} {
		for _, tt := range tests {
			t.Run(tt.name, inPool(func(t *testing.T, s *distant) {
				var w spawner.Workload
				if job {
					w = s.submit(alice, poolJob())
				} else {
					w = s.startSession(poolRequest("alice", "one"))
				}
				s.reach(w.ID, spawner.Running)
				tt.do(s, w.ID)
				w = s.reach(w.ID, spawner.Stopped)
				if o := w.Outcome; !o.Failed || !strings.HasPrefix(o.Reason, tt.reason) || len(s.pool.Held()) > 0 {
					t.Errorf("%+v, in the pool %v", o, s.pool.Held())
				}
				if !job && w.Kept == "" && !strings.Contains(w.Outcome.Reason, "has not come back") {
					t.Errorf("nobody is told what is lost: %s", w.Outcome.Reason)
				}
			}))
		}
	}
}

// TestHeldByTheBatchSystem: a session fails with the reason, a job waits and says so, and can be released by hand.
func TestHeldByTheBatchSystem(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		s.pool.Fill(true)
		session, job := s.startSession(poolRequest("alice", "one")), s.submit(alice, poolJob())
		s.reach(session.ID, spawner.Starting)
		s.reach(job.ID, spawner.Starting)
		time.Sleep(time.Minute)
		s.pool.Hold(session.ID, "its image is missing")
		s.pool.Hold(job.ID, "its image is missing")
		if o := s.reach(session.ID, spawner.Stopped).Outcome; !o.Failed || o.Reason != "pool holds it: its image is missing" {
			t.Errorf("%+v", o)
		}
		time.Sleep(2 * time.Hour)
		w, _ := s.Get(t.Context(), alice, job.ID)
		if w.Phase != spawner.Starting || s.Detail(w) != "Held at pool: its image is missing" {
			t.Errorf("%s: %s", w.Phase, s.Detail(w))
		}
		if _, err := s.Release(t.Context(), bob, job.ID); !errs.Is(err, errs.NotFound) {
			t.Errorf("released by another: %v", err)
		}
		if _, err := s.Release(t.Context(), alice, job.ID); err != nil {
			t.Fatal(err)
		}
		s.pool.Fill(false)
		if w = s.reach(job.ID, spawner.Running); w.Moves != 1 {
			t.Errorf("%d moves", w.Moves)
		}
		s.pool.Fill(true)
		if _, err := s.Requeue(t.Context(), alice, job.ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if w, _ = s.Get(t.Context(), alice, job.ID); w.Phase != spawner.Starting || w.Host != "" {
			t.Errorf("it is %s, on %q", w.Phase, w.Host)
		}
	})(t)
}

// TestHeldAfterItBegan: it does not run any more, whatever it did before.
func TestHeldAfterItBegan(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		job := s.reach(s.submit(alice, poolJob()).ID, spawner.Running)
		s.pool.Hold(job.ID, "its output directory is full")
		for range 2 {
			s.restart()
			time.Sleep(time.Minute)
			why, err := s.Why(t.Context(), alice, job.ID)
			if err != nil || why.Summary != "pool holds it: its output directory is full" || !strings.Contains(why.Remedy, "release it") {
				t.Errorf("why: %+v, %v", why, err)
			}
			if got := s.Detail(job); got != "Held at pool: its output directory is full" {
				t.Errorf("detail: %q", got)
			}
		}
		if _, err := s.Release(t.Context(), alice, job.ID); err != nil {
			t.Fatal(err)
		}
		job = s.again(job.ID, 1)
		if why, err := s.Why(t.Context(), alice, job.ID); err != nil || why.Summary != "it runs on "+job.Host {
			t.Errorf("why: %+v, %v", why, err)
		}
	})(t)
}

// TestRemoteStartIsAnnouncedOnce: not again at every restart of the service, nor when it begins anew.
func TestRemoteStartIsAnnouncedOnce(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		var told atomic.Int32
		s.config.AnnounceStart = func(context.Context, spawner.Workload, control.Env) { told.Add(1) }
		s.restart()
		r := poolRequest("alice", "one")
		r.Spec.EventsURL = "http://hub/events"
		w := s.reach(s.startSession(r).ID, spawner.Running)
		for range 3 {
			s.restart()
			time.Sleep(time.Minute)
		}
		s.pool.Evict(w.ID, "", true)
		s.again(w.ID, 1)
		s.restart()
		s.stop(w.ID)
		if got := told.Load(); got != 1 {
			t.Errorf("told %d times", got)
		}
	})(t)
}

// TestUnusedRemoteReturnsItsSlot: one that nobody opens, and one in which nothing goes on, leave the pool with what
// they had changed, and go on from there when they are started again. Their user is told why, and that nothing is lost.
func TestUnusedRemoteReturnsItsSlot(t *testing.T) {
	tests := map[string]struct {
		life   spawner.Life
		opened bool
		reason string
	}{
		"never opened": {spawner.Life{FirstConnect: 20 * time.Minute}, false, "stopped by Slipway: not opened by anybody for 20 min"},
		"idle":         {spawner.Life{Idle: 20 * time.Minute}, true, "stopped by Slipway: idle for 20 min of at most 20 min"},
	}
	for name, tt := range tests {
		t.Run(name, inPool(func(t *testing.T, s *distant) {
			r := poolRequest("alice", "one")
			r.Spec.Life = tt.life
			w := s.reach(s.startSession(r).ID, spawner.Running)
			h := s.crew.Hand(w.ID)
			h.Change("numpy")
			if tt.opened {
				s.Visit(w.ID, true)
				h.Act(control.Activity{Asked: true, Quiet: -1})
			}
			time.Sleep(19 * time.Minute)
			if got := s.phaseOf(w.ID); got != spawner.Running {
				t.Fatalf("it is %s too soon", got)
			}
			w = s.endsWithin(w.ID, 5*time.Minute)
			o := w.Outcome
			if len(s.pool.Held()) > 0 || w.Kept != "sha256:notebook+numpy" || len(w.Sealed) > 0 || !o.Expired || o.Failed {
				t.Errorf("in the pool %v, kept %q, %+v", s.pool.Held(), w.Kept, o)
			}
			if o.Reason != tt.reason || o.Remedy != "start it again: its changes are kept" {
				t.Errorf("told %+v", o)
			}
			r.Launch = "two"
			again := s.reach(s.startSession(r).ID, spawner.Running)
			if again.ID != w.ID || again.From != w.Kept || again.Outcome != nil {
				t.Errorf("%s starts from %q, %+v", again.ID, again.From, again.Outcome)
			}
		}))
	}
}

// TestSlowNodes: a node may take long to get the image, also at the second start, and a link that goes down meanwhile
// may come up again.
func TestSlowNodes(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		for _, launch := range []string{"one", "two"} {
			s.crew.Boot(func(*spawnertest.Hand) {})
			s.pool.Fill(true)
			w := s.startSession(poolRequest("alice", launch))
			s.crew.Cut(w.ID)
			s.reach(w.ID, spawner.Starting)
			s.pool.Fill(false)
			time.Sleep(15 * time.Minute)
			s.crew.Join(w.ID)
			s.reach(w.ID, spawner.Booting)
			s.crew.Cut(w.ID)
			time.Sleep(5 * time.Minute)
			s.crew.Hand(w.ID).Ready()
			s.crew.Join(w.ID)
			s.reach(w.ID, spawner.Running)
			time.Sleep(time.Hour)
			s.stop(w.ID)
			time.Sleep(time.Hour)
		}
	})(t)
}

// TestPartition: a link that is down changes nothing as long as the batch system has it running; its end is told by
// what comes back.
func TestPartition(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		w := s.reach(s.startSession(poolRequest("alice", "one")).ID, spawner.Running)
		for range 100 {
			s.crew.Cut(w.ID)
			time.Sleep(5 * time.Minute)
			s.crew.Join(w.ID)
			time.Sleep(time.Second)
		}
		if now, _ := s.Get(t.Context(), alice, w.ID); now.Phase != spawner.Running || now.Rev > w.Rev+1 || s.crew.Hand(w.ID).Launches() != 1 {
			t.Errorf("%s of revision %d after %d", now.Phase, now.Rev, w.Rev)
		}
		s.crew.Cut(w.ID)
		s.crew.Hand(w.ID).Change("numpy")
		s.pool.Exit(w.ID, 0) // the agent has waited for the service long enough
		if w = s.reach(w.ID, spawner.Stopped); w.Kept != "sha256:notebook+numpy" {
			t.Errorf("kept %q, %+v", w.Kept, w.Outcome)
		}
	})(t)
}

// TestAgentThatNeverReachesTheService: counted from when it runs.
func TestAgentThatNeverReachesTheService(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		s.pool.Fill(true)
		w := s.startSession(poolRequest("alice", "one"))
		s.reach(w.ID, spawner.Starting)
		s.crew.Cut(w.ID)
		time.Sleep(time.Hour)
		s.pool.Fill(false)
		time.Sleep(19 * time.Minute)
		if got := s.phaseOf(w.ID); got != spawner.Starting {
			t.Errorf("it is %s", got)
		}
		w = s.reach(w.ID, spawner.Stopped)
		if o := w.Outcome; o.Reason != "its agent on node1 did not reach the service within 20m0s" || o.Remedy == "" {
			t.Errorf("%+v", o)
		}
	})(t)
}

func (s *service) phaseOf(id spawner.ID) spawner.Phase {
	w, err := s.Get(s.t.Context(), admin, id)
	if err != nil {
		s.t.Error(err)
	}
	return w.Phase
}

// TestWhatCannotBeKept stays where it is, is told, and is kept by the next start.
func TestWhatCannotBeKept(t *testing.T) {
	tests := map[string]error{
		"over quota":   errs.New(errs.OverQuota, "your environments have 50 GiB of 50 GiB").With("remove some"),
		"for a while":  errs.New(errs.Unavailable, "the library is busy"),
		"not possible": errs.New(errs.NotFound, "no base"),
	}
	for name, why := range tests {
		t.Run(name, inPool(func(t *testing.T, s *distant) {
			w := s.reach(s.startSession(poolRequest("alice", "one")).ID, spawner.Running)
			s.crew.Hand(w.ID).Change("numpy")
			s.keep = func() error { return why }
			if _, err := s.Stop(t.Context(), alice, w.ID); err != nil {
				t.Fatal(err)
			}
			time.Sleep(15 * time.Minute)
			s.restart()
			w = s.reach(w.ID, spawner.Stopped)
			if w.Unkept == "" || !w.Outcome.Failed || !strings.Contains(w.Outcome.Reason, "could not be kept") || s.pool.Held()[w.ID] != spawner.Exited {
				t.Errorf("unkept %q, %+v, in the pool %v", w.Unkept, w.Outcome, s.pool.Held())
			}
			s.startSession(poolRequest("alice", "two"))
			time.Sleep(time.Hour)
			if w = s.reach(w.ID, spawner.Stopped); w.Launch != "two" || w.Unkept == "" || s.pool.Held()[w.ID] != spawner.Exited {
				t.Errorf("the next start: %+v, in the pool %v", w.Outcome, s.pool.Held())
			}
			s.keep = nil
			w = s.reach(s.startSession(poolRequest("alice", "three")).ID, spawner.Running)
			if w.From != "sha256:notebook+numpy" || w.Unkept != "" || len(s.pool.Lost()) > 0 {
				t.Errorf("from %q, lost %v", w.From, s.pool.Lost())
			}
		}))
	}
}

// TestCutOffOnItsWay: what did not come back whole is lost at once, told, and no hindrance to the next start.
func TestCutOffOnItsWay(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		w := s.reach(s.startSession(poolRequest("alice", "one")).ID, spawner.Running)
		s.crew.Hand(w.ID).Change("numpy")
		s.pool.Tear(w.ID)
		begun := time.Now()
		w = s.stop(w.ID)
		if took := time.Since(begun); took > 5*time.Second || len(s.pool.Held()) > 0 || w.Kept+w.Unkept != "" {
			t.Errorf("it took %s; kept %q, unkept %q, in the pool %v", took, w.Kept, w.Unkept, s.pool.Held())
		}
		if want := "stopped by its owner; what was changed in it since it started is lost: only a part of it came back"; w.Outcome.Reason != want || !w.Outcome.Failed || w.Outcome.Remedy == "" {
			t.Errorf("told %+v, want %q", w.Outcome, want)
		}
		if w = s.reach(s.startSession(poolRequest("alice", "two")).ID, spawner.Running); w.From != "sha256:notebook" {
			t.Errorf("from %q", w.From)
		}
	})(t)
}

// TestKeepingIsNotTriedWithoutEnd: what does not work is tried again after longer and longer pauses.
func TestKeepingIsNotTriedWithoutEnd(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		tries := 0
		w := s.reach(s.startSession(poolRequest("alice", "one")).ID, spawner.Running)
		s.crew.Hand(w.ID).Change("numpy")
		s.keep = func() error { tries++; return errs.New(errs.Unavailable, "the library is busy") }
		if w = s.endsAfter(w.ID); w.Unkept == "" || tries < 8 || tries > 20 {
			t.Errorf("tried %d times; unkept %q", tries, w.Unkept)
		}
	})(t)
}

// endsAfter stops a session, which may take long.
func (s *distant) endsAfter(id spawner.ID) spawner.Workload {
	s.t.Helper()
	s.ask(id)
	return s.endsWithin(id, 30*time.Minute)
}

// TestUnkeptThatIsGone: what could not be kept and is nowhere any more is told, and what is changed since then is kept.
func TestUnkeptThatIsGone(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		w := s.reach(s.startSession(poolRequest("alice", "one")).ID, spawner.Running)
		s.crew.Hand(w.ID).Change("numpy")
		s.keep = func() error { return errs.New(errs.OverQuota, "no more") }
		s.stop(w.ID)
		s.keep = nil
		s.pool.Vanish(w.ID)
		w = s.reach(s.startSession(poolRequest("alice", "two")).ID, spawner.Running)
		told := "What could not be kept when it last ended is gone from pool: it starts from what it had kept before"
		if !slices.Contains(messages(s.events(w.ID, "two")), told) || w.Unkept != "" {
			t.Errorf("unkept %q; told %q", w.Unkept, messages(s.events(w.ID, "two")))
		}
		s.crew.Hand(w.ID).Change("scipy")
		if w = s.stop(w.ID); w.Kept != "sha256:notebook+scipy" {
			t.Errorf("kept %q, %+v", w.Kept, w.Outcome)
		}
	})(t)
}

// TestRemoteFresh discards what could not be kept, and what was.
func TestRemoteFresh(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		w := s.reach(s.startSession(poolRequest("alice", "one")).ID, spawner.Running)
		s.crew.Hand(w.ID).Change("numpy")
		s.keep = func() error { return errs.New(errs.OverQuota, "no more") }
		s.stop(w.ID)
		r := poolRequest("alice", "two")
		r.Fresh = true
		fresh := s.reach(s.startSession(r).ID, spawner.Running)
		s.gone(w.ID)
		if fresh.From != "sha256:notebook" || fresh.ID == w.ID || len(s.pool.Held()) != 1 {
			t.Errorf("from %q, in the pool %v", fresh.From, s.pool.Held())
		}
	})(t)
}

// TestBackendsKeepApart: a session of this host is not gone on with on another, and its server has one session at a
// time.
func TestBackendsKeepApart(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		here := s.reach(s.startSession(request("alice", "", "one")).ID, spawner.Running)
		there := s.reach(s.startSession(poolRequest("alice", "two")).ID, spawner.Running)
		if here.ID == there.ID || s.phaseOf(here.ID) != spawner.Stopped {
			t.Errorf("%s and %s, the first is %s", here.ID, there.ID, s.phaseOf(here.ID))
		}
		if back := s.reach(s.startSession(request("alice", "", "three")).ID, spawner.Running); back.ID != here.ID {
			t.Errorf("%s in place of %s", back.ID, here.ID)
		}
	})(t)
}

// TestRefusedBeforehand: what could never start is not saved.
func TestRefusedBeforehand(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		s.pool.Refuse(errs.New(errs.OverQuota, "no machine has 7 GPUs").With("ask for fewer"))
		if _, err := s.StartSession(t.Context(), hub, poolRequest("alice", "one")); !errs.Is(err, errs.OverQuota) {
			t.Errorf("session: %v", err)
		}
		if _, err := s.SubmitJob(t.Context(), alice, poolJob()); !errs.Is(err, errs.OverQuota) {
			t.Errorf("job: %v", err)
		}
		if _, err := s.SubmitScan(t.Context(), alice, poolJob(), make([]spawner.Point, 3)); !errs.Is(err, errs.OverQuota) {
			t.Errorf("scan: %v", err)
		}
		if all, _ := s.List(t.Context(), admin); len(all) > 0 {
			t.Errorf("saved: %v", all)
		}
		s.pool.Refuse(errs.New(errs.Unavailable, "the collector does not answer"))
		s.reach(s.submit(alice, poolJob()).ID, spawner.Running)
		r := poolRequest("alice", "one")
		r.Backend = "local"
		if _, err := s.StartSession(t.Context(), hub, r); !errs.Is(err, errs.Invalid) {
			t.Errorf("a session where jobs run: %v", err)
		}
	})(t)
}

// TestRemoteGPUIsNotLeasedHere: what is asked of GPUs goes along.
func TestRemoteGPUIsNotLeasedHere(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		r := poolRequest("alice", "one")
		r.Spec.GPU = part()
		w := s.reach(s.startSession(r).ID, spawner.Running)
		l, _ := s.pool.Launched(w.ID)
		if w.Slice != nil || l.GPU != nil || l.Spec.GPU != part() || len(s.engine.Leases()) > 0 {
			t.Errorf("%v, %v, leases %v", w.Slice, l.Spec.GPU, s.engine.Leases())
		}
		if room := s.Room("pool", spawner.Resources{CPUs: 1}, part()); room.Free != -1 || room.Most != -1 || room.Lacks != "" {
			t.Errorf("room %+v", room)
		}
	})(t)
}

// TestBatchSystemIsDown: a start waits for it, and is asked for once.
func TestBatchSystemIsDown(t *testing.T) {
	for _, step := range []spawnertest.Step{spawnertest.Before, spawnertest.After} {
		inPool(func(t *testing.T, s *distant) {
			withdraw := s.pool.Inject(spawnertest.Fault{Op: spawnertest.Start, Step: step, Times: spawnertest.Always})
			w := s.startSession(poolRequest("alice", "one"))
			time.Sleep(5 * time.Minute)
			s.restart()
			time.Sleep(5 * time.Minute)
			withdraw()
			s.reach(w.ID, spawner.Running)
			if runs := s.pool.Runs(w.ID); runs != 1 || s.crew.Hand(w.ID).Launches() != 1 {
				t.Errorf("%d runs", runs)
			}
		})(t)
	}
}

// TestImageThatIsNotReadyYet: where the engine of images does not answer a start waits; what is wrong with the image
// ends it.
func TestImageThatIsNotReadyYet(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		base := s.parts.Base
		var why atomic.Pointer[errs.Error]
		why.Store(errs.New(errs.Unavailable, "the engine does not answer"))
		s.parts.Base = func(ctx context.Context, image string, tell func(string, int)) (string, error) {
			if err := why.Load(); err != nil {
				return "", err
			}
			return base(ctx, image, tell)
		}
		s.restart()
		w := s.startSession(poolRequest("alice", "one"))
		time.Sleep(5 * time.Minute)
		why.Store(nil)
		w = s.reach(w.ID, spawner.Running)
		told := "Its image cannot be made ready for other hosts now; trying again. If this lasts, tell your administrator"
		if got := messages(s.events(w.ID, "one")); !slices.Contains(got, told) {
			t.Errorf("told %q", got)
		}
		why.Store(errs.New(errs.NotFound, "no such image"))
		if w = s.reach(s.startSession(poolRequest("bob", "two")).ID, spawner.Stopped); !strings.Contains(w.Outcome.Reason, "no such image") {
			t.Errorf("%+v", w.Outcome)
		}
	})(t)
}

// quiet starts the service again without its log.
func (s *service) quiet() {
	s.kill()
	s.config.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	s.start()
}
