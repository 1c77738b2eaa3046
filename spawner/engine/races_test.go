package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/internal/gpu"
	"slipway/spawner"
	"slipway/spawner/engine"
	"slipway/spawner/spawnertest"
)

// TestSilentBackendIsNotAskedWithoutPause: whatever a workload is in the middle of, a backend that is down is asked
// every few seconds, not as fast as it can refuse.
func TestSilentBackendIsNotAskedWithoutPause(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		idle := s.run("alice", mortal)
		s.crew.Hand(idle.ID).Act(control.Activity{Asked: true, Quiet: -1})
		s.Visit(idle.ID, false)
		time.Sleep(55 * time.Minute) // she has been warned
		s.crew.Boot(func(*spawnertest.Hand) {})
		booting := s.startSession(request("bob", "", "one"))
		s.reach(booting.ID, spawner.Booting)
		withdraw := s.sessions.Inject(spawnertest.Fault{Op: spawnertest.Observe, Times: spawnertest.Always})
		before := len(s.sessions.Calls())
		time.Sleep(10 * time.Minute) // both times are up
		asked := map[spawner.ID]int{}
		for _, c := range s.sessions.Calls()[before:] {
			asked[c.ID]++
		}
		if asked[idle.ID] > 60 || asked[booting.ID] > 350 { // one stands, for the other somebody waits
			t.Errorf("asked in ten minutes for %v", asked)
		}
		withdraw()
		s.reach(idle.ID, spawner.Stopped)
		s.reach(booting.ID, spawner.Stopped)
	})(t)
}

// TestWhoLeavesTheLineHeldNothing: a start that is canceled while it waits takes nobody's place, and is no place come
// free.
func TestWhoLeavesTheLineHeldNothing(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		s.run("alice", spawner.Life{})
		s.run("bob", spawner.Life{})
		s.sessions.Inject(spawnertest.Fault{Op: spawnertest.Observe, Times: spawnertest.Always}) // nothing needs to be seen of it
		for i, how := range []func(spawner.ID) error{
			func(id spawner.ID) error { _, err := s.Stop(t.Context(), hub, id); return err },
			func(spawner.ID) error {
				r := spawner.Roster{Hub: "main", Asked: time.Now().Add(time.Hour), Stop: true, Servers: []spawner.Server{{User: "alice"}, {User: "bob"}}}
				_, err := s.ReconcileHub(t.Context(), r)
				_, again := s.ReconcileHub(t.Context(), r)
				return errors.Join(err, again)
			},
			func(id spawner.ID) error { return s.Remove(t.Context(), admin, id) },
		} {
			w := s.startSession(request("carol", "", string(rune('a'+i))))
			synctest.Wait()
			if err := how(w.ID); err != nil {
				t.Fatal(err)
			}
			if use := s.Stats().Use["docker"]; use.Count != 2 {
				t.Errorf("%d of 2 leases are held", use.Count)
			}
			if i < 2 {
				w = s.reach(w.ID, spawner.Stopped)
				if w.Outcome == nil || !w.Outcome.Canceled || len(w.Sealed) > 0 {
					t.Errorf("outcome %+v, %d bytes of secrets", w.Outcome, len(w.Sealed))
				}
			}
		}
		s.startSession(request("dave", "", "one"))
		if e := s.Room("", spawner.Resources{CPUs: 1, Memory: 1}, gpu.Request{}).Estimate; e >= 0 {
			t.Errorf("an estimate of %v, and nothing ever came free", e)
		}
	})(t)
}

// TestNewestStartWins: of several starts of one server that wait for an earlier one to end, the last asked for is
// started, whichever of them wakes first.
func TestNewestStartWins(t *testing.T) {
	for range 20 {
		inBubble(func(t *testing.T, s *service) {
			w := s.run("alice", spawner.Life{})
			hold := make(chan struct{})
			s.sessions.Inject(spawnertest.Fault{Op: spawnertest.Stop, Step: spawnertest.Halfway, Hold: hold})
			launches := []string{"two", "three", "four", "four"} // the last one is repeated
			results := make([]error, len(launches))
			var starts sync.WaitGroup
			for i, launch := range launches {
				starts.Go(func() { _, results[i] = s.StartSession(t.Context(), hub, request("alice", "", launch)) })
				synctest.Wait()
			}
			if again := s.startSession(request("alice", "", "1")); again.Launch != "1" { // a late repetition of what is ending
				t.Errorf("the repetition has launch %s", again.Launch)
			}
			close(hold)
			starts.Wait()
			s.reach(w.ID, spawner.Running)
			if w, _ = s.Get(t.Context(), hub, w.ID); w.Launch != "four" || w.Phase != spawner.Running {
				t.Errorf("%s of launch %s", w.Phase, w.Launch)
			}
			for i, err := range results {
				if overtaken := i < 2; overtaken != errs.Is(err, errs.Conflict) || !overtaken && err != nil {
					t.Errorf("start %s: %v", launches[i], err)
				}
			}
			if n := s.sessions.Runs(w.ID); n != 2 {
				t.Errorf("%d runs", n)
			}
		})(t)
	}
}

func TestCanceledStartIsNotMadeLater(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		w := s.run("alice", spawner.Life{})
		hold := make(chan struct{})
		s.sessions.Inject(spawnertest.Fault{Op: spawnertest.Stop, Step: spawnertest.Halfway, Hold: hold})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { _, err := s.StartSession(ctx, hub, request("alice", "", "two")); done <- err }()
		synctest.Wait()
		cancel()
		if err := <-done; !errs.Is(err, errs.Unavailable) {
			t.Errorf("canceled: %v", err)
		}
		close(hold)
		time.Sleep(time.Minute)
		if w, _ = s.Get(t.Context(), hub, w.ID); w.Launch != "1" || w.Phase != spawner.Stopped {
			t.Errorf("%s of launch %s", w.Phase, w.Launch)
		}
		s.reach(s.startSession(request("alice", "", "three")).ID, spawner.Running)
	})(t)
}

func TestStopLaunch(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		w := s.run("alice", spawner.Life{})
		s.reach(s.startSession(request("alice", "", "2")).ID, spawner.Running)
		for name, c := range map[string]spawner.Caller{"1": hub, "2": {Hub: "other", Spawner: true}, "": hub} {
			if _, err := s.StopLaunch(t.Context(), c, name); !errs.Is(err, errs.NotFound) {
				t.Errorf("stop launch %q: %v", name, err)
			}
		}
		if got := s.phase(w.ID); got != spawner.Running {
			t.Fatalf("%s by the stop of an earlier launch", got)
		}
		if stopped, err := s.StopLaunch(t.Context(), hub, "2"); err != nil || stopped.ID != w.ID {
			t.Error(stopped.ID, err)
		}
		s.reach(w.ID, spawner.Stopped)
	})(t)
}

// TestBackendThatIsNotConfiguredAnyMore: its workloads are kept as they are, and the service works.
func TestBackendThatIsNotConfiguredAnyMore(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		s.crew.Boot(payload(0))
		ended := s.reach(s.submit(alice, simpleJob()).ID, spawner.Stopped)
		s.crew.Boot(func(h *spawnertest.Hand) { h.Ready() })
		runs := s.reach(s.submit(alice, simpleJob()).ID, spawner.Running)
		s.kill()
		s.config.Backends, s.parts.Jobs = s.config.Backends[:1], ""
		s.start()
		time.Sleep(time.Hour)
		if s.phase(ended.ID) != spawner.Stopped || s.phase(runs.ID) != spawner.Running {
			t.Errorf("%s and %s", s.phase(ended.ID), s.phase(runs.ID))
		}
		if err := s.Remove(t.Context(), alice, ended.ID); err != nil {
			t.Error(err)
		}
		s.run("alice", spawner.Life{})
		s.kill()
		s.config.Backends, s.parts.Jobs = []spawner.Backend{s.sessions, s.jobs}, "local"
		s.start()
		s.gone(ended.ID)
	})(t)
}

// lateWords is an agent whose last word comes when its link has gone down already.
type lateWords struct{ *spawnertest.Crew }

type lateAgent struct{ engine.Agent }

func (l lateWords) Agent(id spawner.ID) engine.Agent { return lateAgent{l.Crew.Agent(id)} }

func (a lateAgent) Watch(ctx context.Context, each func(control.Status) error) error {
	err := a.Agent.Watch(ctx, each)
	if ctx.Err() != nil {
		_ = each(control.Status{State: control.Idle}) // as a container that was restarted outside would say
	}
	return err
}

func TestWordsOfAnEarlierLinkAreNotHeard(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		s.kill()
		s.config.Agents = lateWords{s.crew}
		s.start()
		w := s.run("alice", spawner.Life{})
		s.engine.LinkChanged(t.Context(), w.ID, false)
		s.engine.LinkChanged(t.Context(), w.ID, true)
		time.Sleep(time.Minute)
		if got := s.phase(w.ID); got != spawner.Running {
			t.Error(got)
		}
	})(t)
}

// TestVisitedIsKnownWhileTheDiskIsFull: nobody is thrown out as one who never came.
func TestVisitedIsKnownWhileTheDiskIsFull(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		w := s.run("alice", mortal)
		s.fill(true)
		s.Visit(w.ID, false)
		time.Sleep(15 * time.Minute)
		s.fill(false)
		time.Sleep(10 * time.Minute)
		if got := s.phase(w.ID); got != spawner.Running {
			t.Errorf("%s: held as one that nobody opened", got)
		}
	})(t)
}

func (s *service) fill(full bool) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.store.full = full
}

// TestEachStopIsWarnedOf: who did something after a warning is warned again before another stop, be it of another
// cause.
func TestEachStopIsWarnedOf(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		w := s.run("alice", spawner.Life{Idle: time.Hour, MaxAge: 75 * time.Minute, Warning: 30 * time.Minute})
		hand := s.crew.Hand(w.ID)
		hand.Act(control.Activity{Asked: true, Quiet: -1})
		s.Visit(w.ID, true)
		time.Sleep(47 * time.Minute)
		if n := hand.Notices(); len(n) != 1 || !strings.Contains(n[0], "idle") {
			t.Fatalf("told %q", n)
		}
		s.Visit(w.ID, true)
		time.Sleep(3 * time.Minute)
		if n := hand.Notices(); len(n) != 2 || !strings.Contains(n[1], "of at most 1 h 15 min") {
			t.Errorf("told %q after she worked on", n)
		}
		time.Sleep(20 * time.Minute)
		s.reach(w.ID, spawner.Stopped)
	})(t)
}

// TestShortLivesAreNotWarnedAllTheTime: where a site's idle limit is shorter than its warning, who works is left in
// peace.
func TestShortLivesAreNotWarnedAllTheTime(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		w := s.run("alice", spawner.Life{Idle: 4 * time.Minute, Warning: 10 * time.Minute})
		hand := s.crew.Hand(w.ID)
		hand.Act(control.Activity{Asked: true, Busy: 1, Quiet: -1})
		time.Sleep(time.Hour)
		if n := hand.Notices(); len(n) > 0 {
			t.Errorf("told %q while she works", n)
		}
		hand.Act(control.Activity{Asked: true, Quiet: -1})
		began := time.Now()
		s.reach(w.ID, spawner.Stopped)
		if d := time.Since(began); len(hand.Notices()) != 1 || d < 3*time.Minute || d > 6*time.Minute {
			t.Errorf("stopped after %v, told %q", d, hand.Notices())
		}
	})(t)
}

// TestEventsOfAnEarlierClock: a reader that goes on behind a number which this run of the service has not come to,
// because the clock was set back, misses nothing.
func TestEventsOfAnEarlierClock(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		w := s.run("alice", spawner.Life{})
		s.restart()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		seq, err := s.Events(ctx, hub, w.ID, w.Launch, time.Now().Add(time.Hour).UnixMilli())
		if err != nil {
			t.Fatal(err)
		}
		for e := range seq {
			if e.Final {
				return
			}
		}
		t.Error("no final event")
	})(t)
}

// TestRecordsLostWhileABackendIsDown: what runs there is not stopped either when it answers again, whatever was started
// meanwhile.
func TestRecordsLostWhileABackendIsDown(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		w := s.run("alice", spawner.Life{})
		s.kill()
		s.store = &memory{records: map[string][]byte{}}
		s.config.Store = s.store
		withdraw := s.sessions.Inject(spawnertest.Fault{Op: spawnertest.List, Times: spawnertest.Always})
		s.start()
		time.Sleep(time.Minute)
		s.submit(alice, simpleJob())
		time.Sleep(time.Minute)
		withdraw()
		time.Sleep(10 * time.Minute)
		if s.look(w.ID) != spawner.Up {
			t.Error("a user's session was stopped because the records were lost")
		}
		if err := s.Ready(); err == nil || !strings.Contains(err.Error(), "has lost its records") {
			t.Errorf("ready: %v", err)
		}
		s.sessions.Exit(w.ID, 0) // the administrator stops it
		time.Sleep(time.Minute)
		if err := s.Ready(); err != nil {
			t.Error(err)
		}
	})(t)
}

// TestLineOutlivesTheClock: who came first is first, though the clock was an hour ahead when she came.
func TestLineOutlivesTheClock(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		runs := s.run("alice", spawner.Life{})
		s.run("bob", spawner.Life{})
		first := s.startSession(request("carol", "", "one"))
		synctest.Wait()
		s.kill()
		s.store.edit(first.ID, func(w *spawner.Workload) { w.Started = w.Started.Add(time.Hour) })
		s.start()
		second := s.startSession(request("dave", "", "one"))
		if q := s.Queue(second); q.Place != 2 {
			t.Errorf("the second is number %d", q.Place)
		}
		s.Stop(t.Context(), hub, runs.ID)
		w := s.reach(first.ID, spawner.Running)
		if text := messages(s.events(w.ID, "one")); strings.Contains(text[len(text)-1], "-") {
			t.Errorf("it %q", text[len(text)-1])
		}
		if took := s.Stats().StartTook; len(took) == 0 || took[len(took)-1] < 0 {
			t.Errorf("starts took %v", took)
		}
	})(t)
}

// edit changes a record of a service that does not run.
func (s *memory) edit(id spawner.ID, change func(*spawner.Workload)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var w spawner.Workload
	if err := json.Unmarshal(s.records["workloads/"+string(id)], &w); err != nil {
		panic(err)
	}
	change(&w)
	s.records["workloads/"+string(id)], _ = json.Marshal(w)
}
