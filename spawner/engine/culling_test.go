package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/internal/gpu"
	"slipway/spawner"
	"slipway/spawner/spawnertest"
)

var mortal = spawner.Life{
	Idle: time.Hour, MaxAge: 24 * time.Hour, FirstConnect: 20 * time.Minute, Warning: 10 * time.Minute, MaxKeep: 4 * time.Hour, BusyCPU: 0.1,
}

// run starts a session with limits and waits until it runs.
func (s *service) run(user string, life spawner.Life) spawner.Workload {
	s.t.Helper()
	r := request(user, "", "1")
	r.Spec.Life = life
	return s.reach(s.startSession(r).ID, spawner.Running)
}

func (s *service) phase(id spawner.ID) spawner.Phase {
	s.t.Helper()
	synctest.Wait()
	w, err := s.Get(s.t.Context(), admin, id)
	if err != nil {
		s.t.Fatal(err)
	}
	return w.Phase
}

func TestUnopenedSessionsAreHeld(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		w := s.run("alice", mortal)
		opened := s.run("bob", mortal)
		s.Visit(opened.ID, false)
		time.Sleep(19 * time.Minute)
		if got := s.phase(w.ID); got != spawner.Running {
			t.Fatalf("%s after 19 minutes", got)
		}
		time.Sleep(2 * time.Minute)
		if got := s.phase(opened.ID); got != spawner.Running {
			t.Errorf("the opened one is %s", got)
		}
		w = s.reach(w.ID, spawner.Stopped)
		if o := w.Outcome; !o.Expired || o.Failed || o.ExitCode != 0 || !strings.Contains(o.Reason, "not opened by anybody for 20 min") || !strings.Contains(o.Remedy, "changes are kept") {
			t.Errorf("outcome %+v", o)
		}
		if s.look(w.ID) != spawner.Exited || s.Stats().Use["docker"].Count != 1 {
			t.Error("its changes are gone, or its resources are not free")
		}
	})(t)
}

func TestIdleSessionsAreStoppedAfterAWarning(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		w := s.run("alice", mortal)
		hand := s.crew.Hand(w.ID)
		s.Visit(w.ID, false)
		hand.Act(control.Activity{Asked: true, Kernels: 1, Busy: 1})
		time.Sleep(3 * time.Hour)
		if got := s.phase(w.ID); got != spawner.Running || len(hand.Notices()) > 0 {
			t.Fatalf("%s though a kernel computes; told %q", got, hand.Notices())
		}
		hand.Act(control.Activity{Asked: true, Kernels: 1, Quiet: -1})
		time.Sleep(48 * time.Minute)
		if got := s.phase(w.ID); got != spawner.Running || len(hand.Notices()) > 0 {
			t.Fatalf("%s, told %q, before its time", got, hand.Notices())
		}
		time.Sleep(3 * time.Minute)
		if n := hand.Notices(); len(n) != 1 || !strings.Contains(n[0], "slipway keep 4h") {
			t.Errorf("told %q", n)
		}
		w = s.reach(w.ID, spawner.Stopped)
		if !w.Outcome.Expired || !strings.Contains(w.Outcome.Reason, "idle for") {
			t.Errorf("outcome %+v", w.Outcome)
		}
	})(t)
}

func TestActivityAfterTheWarningSavesTheSession(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		w := s.run("alice", mortal)
		hand := s.crew.Hand(w.ID)
		hand.Act(control.Activity{Asked: true, Quiet: -1})
		s.Visit(w.ID, false)
		time.Sleep(55 * time.Minute)
		s.Visit(w.ID, true) // she saves a file
		time.Sleep(45 * time.Minute)
		if got := s.phase(w.ID); got != spawner.Running || len(hand.Notices()) != 1 {
			t.Errorf("%s, told %d times", got, len(hand.Notices()))
		}
		time.Sleep(7 * time.Minute)
		if len(hand.Notices()) != 2 {
			t.Errorf("told %d times, want again", len(hand.Notices()))
		}
		s.reach(w.ID, spawner.Stopped)
	})(t)
}

// TestTimeOnTheBatchSystemEnds: who works in a session is told twice when a batch system will end it, and it is stopped
// before that. It goes on, with its changes, when it is started again.
func TestTimeOnTheBatchSystemEnds(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		w := s.reach(s.startSession(poolRequest("alice", "one")).ID, spawner.Running)
		hand := s.crew.Hand(w.ID)
		hand.Change("+numpy")
		s.Visit(w.ID, true)
		s.pool.EndAt(w.ID, w.Up.Add(time.Hour))
		s.engine.Wake(w.ID)
		time.Sleep(time.Until(w.Up.Add(44 * time.Minute)))
		if p := s.PlannedStop(w); !p.At.Equal(w.Up.Add(time.Hour)) || len(hand.Notices()) > 0 {
			t.Errorf("told %d times before it is time, of %+v", len(hand.Notices()), p)
		}
		for i, minutes := range []time.Duration{46, 56} {
			s.Visit(w.ID, true)
			time.Sleep(time.Until(w.Up.Add(minutes * time.Minute)))
			if got := s.phase(w.ID); got != spawner.Running || len(hand.Notices()) != i+1 {
				t.Errorf("after %d min it is %s, and was told %q", minutes, got, hand.Notices())
			}
		}
		time.Sleep(time.Until(w.Up.Add(time.Hour + time.Minute)))
		w = s.reach(w.ID, spawner.Stopped)
		if !w.Outcome.Expired || !strings.Contains(w.Outcome.Reason, "time on the batch system ends") || w.Kept == "" {
			t.Errorf("it has ended by %+v, with %q", w.Outcome, w.Kept)
		}
		w = s.reach(s.startSession(poolRequest("alice", "two")).ID, spawner.Running)
		if w.From == "" || !s.PlannedStop(w).At.IsZero() {
			t.Errorf("it goes on from %q, until %v", w.From, s.PlannedStop(w).At)
		}
	})(t)
}

func TestKeep(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		w := s.run("alice", mortal)
		s.crew.Hand(w.ID).Act(control.Activity{Asked: true, Quiet: -1})
		s.Visit(w.ID, false)
		time.Sleep(55 * time.Minute)
		if _, err := s.Keep(t.Context(), alice, w.ID, 4*time.Hour); err != nil {
			t.Fatal(err)
		}
		s.restart() // what was promised is kept
		if p := s.PlannedStop(w); time.Until(p.At) < 3*time.Hour || !p.CanKeep {
			t.Errorf("planned stop %+v", p)
		}
		time.Sleep(3*time.Hour + 55*time.Minute)
		if got := s.phase(w.ID); got != spawner.Running {
			t.Errorf("%s though it was to be kept", got)
		}
		s.reach(w.ID, spawner.Stopped)
		for d, want := range map[time.Duration]errs.Kind{time.Hour: errs.Conflict} {
			if _, err := s.Keep(t.Context(), alice, w.ID, d); !errs.Is(err, want) {
				t.Errorf("keep a stopped one: %v", err)
			}
		}
		v := s.run("bob", mortal)
		for _, d := range []time.Duration{0, -time.Hour, 5 * time.Hour} {
			if _, err := s.Keep(t.Context(), bob, v.ID, d); !errs.Is(err, errs.Invalid) {
				t.Errorf("keep for %v: %v", d, err)
			}
		}
		s.Stop(t.Context(), bob, v.ID)
		s.reach(v.ID, spawner.Stopped)
		u := s.run("carol", spawner.Life{Idle: time.Hour})
		if _, err := s.Keep(t.Context(), spawner.Caller{User: "carol", Hub: "main"}, u.ID, time.Hour); !errs.Is(err, errs.Forbidden) {
			t.Errorf("keep where the site does not offer it: %v", err)
		}
	})(t)
}

func TestOldSessionsAreStoppedBusyOrNot(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		w := s.run("alice", mortal)
		hand := s.crew.Hand(w.ID)
		hand.Act(control.Activity{Asked: true, Busy: 1})
		time.Sleep(23*time.Hour + 55*time.Minute)
		if got := s.phase(w.ID); got != spawner.Running || len(hand.Notices()) != 1 || strings.Contains(hand.Notices()[0], "keep") {
			t.Errorf("%s, told %q", got, hand.Notices())
		}
		w = s.reach(w.ID, spawner.Stopped)
		if !strings.Contains(w.Outcome.Reason, "of at most 24 h") {
			t.Errorf("outcome %+v", w.Outcome)
		}
	})(t)
}

// TestUnknownIsNotIdle: an agent that does not answer, a Jupyter Server that cannot be asked and a service that was
// away are no reason to stop anybody; and who could not be warned in time is warned first.
func TestUnknownIsNotIdle(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		w := s.run("alice", mortal)
		s.Visit(w.ID, false) // its Jupyter Server never answers: Asked is false
		time.Sleep(10 * time.Hour)
		if got := s.phase(w.ID); got != spawner.Running {
			t.Fatalf("%s though nothing is known", got)
		}
		s.kill()
		time.Sleep(5 * time.Hour)
		s.start()
		hand := s.crew.Hand(w.ID)
		hand.Act(control.Activity{Asked: true, Quiet: 3600 * 15})
		time.Sleep(61 * time.Second)
		if got := s.phase(w.ID); got != spawner.Running || len(hand.Notices()) != 1 {
			t.Errorf("%s, told %q, when the service is back", got, hand.Notices())
		}
		s.reach(w.ID, spawner.Stopped)
	})(t)
}

func TestLastActive(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		w := s.run("alice", mortal)
		s.run("bob", mortal)
		s.crew.Hand(w.ID).Act(control.Activity{Asked: true, Quiet: 30})
		time.Sleep(2 * time.Minute)
		list := s.LastActive("main")
		if len(list) != 1 || list[0].User != "alice" || time.Since(list[0].Active) > 2*time.Minute || time.Since(list[0].Active) < 30*time.Second {
			t.Errorf("%+v", list)
		}
		if other := s.LastActive("other"); len(other) > 0 {
			t.Errorf("of another hub: %+v", other)
		}
	})(t)
}

func TestReconcileHub(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		known, lost := s.run("alice", spawner.Life{}), s.run("bob", spawner.Life{})
		reconcile := func(stop bool, age time.Duration) spawner.HubReconcileReport {
			t.Helper()
			r, err := s.ReconcileHub(t.Context(), spawner.Roster{
				Hub: "main", Asked: time.Now(), Age: age, Stop: stop, Servers: []spawner.Server{{User: "alice"}, {User: "bob", Name: "other"}},
			})
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		for range 3 {
			if r := reconcile(true, time.Hour); r.Strangers != 0 {
				t.Errorf("a young one is judged: %+v", r)
			}
		}
		time.Sleep(2 * time.Hour)
		if r := reconcile(true, time.Hour); r.Strangers != 0 {
			t.Errorf("judged after one look: %+v", r)
		}
		if r := reconcile(false, time.Hour); r.Strangers != 1 || len(r.Stopped) > 0 || s.Stats().Strangers["main"] != 1 {
			t.Errorf("to be counted: %+v", r)
		}
		if r := reconcile(true, time.Hour); !slices.Equal(r.Stopped, []spawner.ID{lost.ID}) {
			t.Errorf("to be stopped: %+v", r)
		}
		if w := s.reach(lost.ID, spawner.Stopped); !strings.Contains(w.Outcome.Reason, "did not know it") || s.phase(known.ID) != spawner.Running {
			t.Errorf("outcome %+v, the known one is %s", w.Outcome, s.phase(known.ID))
		}
		if r := reconcile(true, time.Hour); r.Strangers != 0 {
			t.Errorf("afterwards: %+v", r)
		}
	})(t)
}

func TestHubThatHasLostItsDatabaseStopsNobody(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		s.kill()
		s.config.Capacity = nil
		s.start()
		for i := range 12 {
			s.run(fmt.Sprintf("user%d", i), spawner.Life{})
		}
		time.Sleep(2 * time.Hour)
		empty := spawner.Roster{Hub: "main", Asked: time.Now(), Age: time.Hour, Stop: true}
		_, first := s.ReconcileHub(t.Context(), empty)
		r, second := s.ReconcileHub(t.Context(), empty)
		if first != nil || !errs.Is(second, errs.Conflict) || r.Strangers != 12 || len(r.Stopped) > 0 {
			t.Errorf("%v, %v, %+v", first, second, r)
		}
	})(t)
}

// TestAnnounceStart: whoever asked to be told of a start is told once, and again by a restarted service, with the
// secrets.
func TestAnnounceStart(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		var mu sync.Mutex
		told := map[string]int{}
		s.config.AnnounceStart = func(ctx context.Context, w spawner.Workload, secrets control.Env) {
			mu.Lock()
			told[w.Launch+" "+secrets["JUPYTERHUB_API_TOKEN"]]++
			mu.Unlock()
			events, err := s.Events(ctx, spawner.Caller{System: true}, w.ID, w.Launch, 0)
			if err != nil {
				t.Error(err)
				return
			}
			for range events {
			}
		}
		s.restart()
		s.crew.Boot(func(h *spawnertest.Hand) { time.AfterFunc(time.Minute, h.Ready) })
		r := request("alice", "", "one")
		r.Spec.EventsURL = "http://hub/events"
		w := s.startSession(r)
		time.Sleep(10 * time.Second)
		s.restart()
		s.reach(w.ID, spawner.Running)
		s.reach(s.startSession(request("bob", "", "two")).ID, spawner.Running)
		s.restart()
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if len(told) != 1 || told["one hunter2-one"] != 2 {
			t.Errorf("told %v", told)
		}
	})(t)
}

func TestLaunched(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		w := s.startSession(request("alice", "", "one"))
		s.reach(w.ID, spawner.Running)
		s.Stop(t.Context(), hub, w.ID)
		s.reach(w.ID, spawner.Stopped)
		if got, err := s.Launched(t.Context(), hub, "one"); err != nil || got.ID != w.ID {
			t.Errorf("%v, %v", got.ID, err)
		}
		s.reach(s.startSession(request("alice", "", "two")).ID, spawner.Running)
		for name, c := range map[string]spawner.Caller{"one": hub, "two": {Hub: "other", Spawner: true}, "three": hub, "": hub} {
			if _, err := s.Launched(t.Context(), c, name); !errs.Is(err, errs.NotFound) {
				t.Errorf("%q of %+v: %v", name, c, err)
			}
		}
		if got, err := s.Launched(t.Context(), hub, "two"); err != nil || got.ID != w.ID {
			t.Errorf("%v, %v", got.ID, err)
		}
	})(t)
}

func TestRoom(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		small := spawner.Resources{CPUs: 1, Memory: 1 << 30}
		if r := s.Room("", small, gpu.Request{}); r.Most != 2 || r.Free != 2 || r.Lacks != "" || r.Waiting != 0 {
			t.Errorf("empty: %+v", r)
		}
		s.run("alice", spawner.Life{})
		s.run("bob", spawner.Life{})
		s.startSession(request("carol", "", "1"))
		synctest.Wait()
		if r := s.Room("", small, gpu.Request{}); r.Most != 2 || r.Free != 0 || !strings.Contains(r.Lacks, "0 of 2 free") || r.Waiting != 1 || r.Estimate >= 0 {
			t.Errorf("full: %+v", r)
		}
		if c := s.Census("main", func(w spawner.Workload) string { return w.Spec.Image }); c["notebook"] != 3 {
			t.Errorf("census %v", c)
		}
		if c := s.Census("other", func(w spawner.Workload) string { return w.Spec.Image }); len(c) > 0 {
			t.Errorf("census of another hub %v", c)
		}
		s.kill()
		s.config.Capacity = nil
		s.start()
		if r := s.Room("", small, gpu.Request{}); r.Most != -1 || r.Free != -1 {
			t.Errorf("without limits: %+v", r)
		}
	})(t)
}
