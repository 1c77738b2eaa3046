package engine_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/spawnertest"
)

// TestNothingRestsOnWhatACrashOfTheHostCouldLose: before a container starts, an app gets its secrets, or a caller is
// told that something will be so, the record of it is on the disk.
func TestNothingRestsOnWhatACrashOfTheHostCouldLose(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		check := func(what string, w spawner.Workload) {
			t.Helper()
			if !s.store.safe(w.ID, w.Rev) {
				t.Errorf("%s rests on a record of %s that is not safe", what, w.ID)
			}
		}
		s.kill()
		s.sessions = s.sessions.Again(spawnertest.Config{
			StartTime: time.Second, Ended: s.crew.GoDown,
			Started: func(l spawner.Launch) { check("a container", l.Workload); s.crew.ComeUp(l) },
		})
		s.config.Backends = []spawner.Backend{s.sessions, s.jobs}
		s.start()
		var w spawner.Workload
		s.crew.Boot(func(h *spawnertest.Hand) {
			now, _ := s.Get(t.Context(), admin, w.ID)
			check("an app", now)
			h.Ready()
		})
		r := request("alice", "", "one")
		r.Spec.Life = mortal
		w = s.startSession(r)
		check("the answer to a start", w)
		s.reach(w.ID, spawner.Running)
		kept, err := s.Keep(t.Context(), alice, w.ID, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		check("the answer to a keep", kept)
		stopped, err := s.Stop(t.Context(), alice, w.ID)
		if err != nil {
			t.Fatal(err)
		}
		check("the answer to a stop", stopped)
		s.reach(w.ID, spawner.Stopped)
		j := s.submit(alice, simpleJob())
		check("the answer to a submission", j)
	})(t)
}

func TestDiskThatCannotBeFlushed(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		s.store.mu.Lock()
		s.store.broken = errs.New(errs.Internal, "input/output error")
		s.store.mu.Unlock()
		if _, err := s.StartSession(t.Context(), hub, request("alice", "", "one")); err == nil || !strings.Contains(err.Error(), "input/output") {
			t.Errorf("a start is promised: %v", err)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if held := s.sessions.Held(); len(held) > 0 {
			t.Errorf("containers %v, which nobody may remember", held)
		}
		s.store.mu.Lock()
		s.store.broken = nil
		s.store.mu.Unlock()
		time.Sleep(time.Minute)
		list, err := s.List(t.Context(), admin)
		if err != nil || len(list) != 1 || list[0].Phase != spawner.Running { // unless its Hub, which was told that it failed, stops it
			t.Errorf("when the disk is well again: %+v, %v", list, err)
		}
	})(t)
}
