package engine_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"slipway/internal/agent/control"
	"slipway/spawner"
)

// TestOutOfMemoryIsTold: the owner of a session of which something was killed for want of memory is told once, in its
// events, in its terminals and where its limits are shown; another start of it knows nothing of that.
func TestOutOfMemoryIsTold(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		w := s.run("alice", spawner.Life{})
		hand, begun := s.crew.Hand(w.ID), s.events(w.ID, w.Launch)
		ready := begun[len(begun)-1].Seq // after which most stop reading
		if got := s.Alerts(w); len(got) > 0 {
			t.Fatalf("before: %+v", got)
		}
		hand.Starve(control.OutOfMemory{Kills: 1, Limit: 1 << 30, Peak: 1 << 30})
		synctest.Wait()
		hand.Starve(control.OutOfMemory{Kills: 1, Limit: 1 << 30, Peak: 1 << 30}) // said again
		synctest.Wait()
		const want = "Out of memory: a program of this session was killed. It had 1 GiB of its 1 GiB in use"
		if got := s.Alerts(w); len(got) != 1 || got[0].Cause != spawner.AlertMemory || got[0].Message != want || got[0].Remedy == "" || got[0].At.IsZero() {
			t.Errorf("alerts: %+v", got)
		}
		if n := hand.Notices(); len(n) != 1 || !strings.HasPrefix(n[0], want) {
			t.Errorf("told %q", n)
		}
		hand.Starve(control.OutOfMemory{Kills: 3, Limit: 1 << 30})
		synctest.Wait()
		if got := s.Alerts(w); len(got) != 1 || !strings.Contains(got[0].Message, "2 programs") {
			t.Errorf("two more: %+v", got)
		}
		s.Sessions.Alert(t.Context(), w.ID, spawner.Alert{Cause: spawner.AlertDisk, Message: "full", Remedy: "remove"})
		if got := s.Alerts(w); len(got) != 2 || got[1].Cause != spawner.AlertDisk {
			t.Errorf("and the disk: %+v", got)
		}
		if _, err := s.Stop(t.Context(), alice, w.ID); err != nil {
			t.Fatal(err)
		}
		s.reach(w.ID, spawner.Stopped)
		steps, err := s.Events(t.Context(), alice, w.ID, w.Launch, ready)
		if err != nil {
			t.Fatal(err)
		}
		told := 0
		for e := range steps {
			if strings.HasPrefix(e.Message, "Out of memory: ") {
				told++
			}
		}
		if got := s.Alerts(w); told != 2 || len(got) > 0 {
			t.Errorf("stopped: %d events of it, alerts %+v", told, got)
		}
		w = s.startSession(request("alice", "", "2"))
		w = s.reach(w.ID, spawner.Running)
		if got := s.Alerts(w); len(got) > 0 || slices.Contains(s.crew.Hand(w.ID).Notices(), want) {
			t.Errorf("the next start: %+v", got)
		}
	})(t)
}

// TestOverrunEndsASession: a session beyond a limit is stopped with the reason and what to do, keeps its changes, and
// starts again.
func TestOverrunEndsASession(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		w := s.run("alice", spawner.Life{})
		s.Overrun(t.Context(), w.ID, spawner.Alert{Cause: spawner.AlertDisk, Message: "It had written too much", Remedy: "remove some"})
		w = s.reach(w.ID, spawner.Stopped)
		if o := w.Outcome; o == nil || !o.Expired || o.Failed || o.Reason != "stopped by Slipway: It had written too much" || o.Remedy != "remove some" {
			t.Errorf("outcome %+v", o)
		}
		if s.look(w.ID) != spawner.Exited {
			t.Error("its changes are gone")
		}
		s.startSession(request("alice", "", "2"))
		s.reach(w.ID, spawner.Running)
	})(t)
}
