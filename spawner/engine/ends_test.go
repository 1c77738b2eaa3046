package engine_test

import (
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/agent/control"
	"slipway/spawner"
	"slipway/spawner/spawnertest"
)

// TestHowItEnded: the end of a job says why in a word, by which signal, for how long it has run and how far it was.
func TestHowItEnded(t *testing.T) {
	for _, tt := range []struct {
		name   string
		code   int
		print  string
		cause  spawner.Cause
		signal int
	}{
		{"exit", 3, "hello\n", spawner.CauseExit, 0},
		{"signal", 139, "", spawner.CauseSignal, 11},
		{"module", 1, "ModuleNotFoundError: No module named 'uproot'\n", spawner.CauseModule, 0},
		{"done", 0, "MemoryError\n", "", 0},
	} {
		for _, backend := range []string{"local", "pool"} {
			t.Run(tt.name+" on "+backend, inPool(func(t *testing.T, s *distant) {
				s.crew.Boot(func(h *spawnertest.Hand) {
					h.Ready()
					h.Print(tt.print)
					h.Tell(control.Progress{Done: 3, Of: 4, Text: "nearly"})
					time.AfterFunc(time.Minute, func() { h.Exit(tt.code) })
				})
				j := s.submit(alice, spawner.JobRequest{Spec: spawner.Spec{Environment: "ana", Argv: []string{"x"}}, Backend: backend})
				s.reach(j.ID, spawner.Running)
				synctest.Wait()
				if p := s.Progress(j.ID); p == nil || p.Text != "nearly" {
					t.Errorf("progress %+v", p)
				}
				o := s.reach(j.ID, spawner.Stopped).Outcome
				if o.Cause != tt.cause || o.Signal != tt.signal || o.Wall < 59 || o.Wall > 90 || o.Progress == nil || o.Progress.Done != 3 {
					t.Errorf("%+v, progress %+v", o, o.Progress)
				}
				s.restart()
				if p := s.Progress(j.ID); p == nil || p.Of != 4 {
					t.Errorf("after a restart: %+v", p)
				}
			}))
		}
	}
	t.Run("canceled", inBubble(func(t *testing.T, s *service) {
		w := s.submit(alice, simpleJob())
		s.reach(w.ID, spawner.Running)
		if _, err := s.Stop(t.Context(), alice, w.ID); err != nil {
			t.Fatal(err)
		}
		if o := s.reach(w.ID, spawner.Stopped).Outcome; o.Cause != spawner.CauseCanceled {
			t.Errorf("%+v", o)
		}
	}))
	t.Run("lost", inBubble(func(t *testing.T, s *service) {
		w := s.submit(alice, simpleJob())
		s.reach(w.ID, spawner.Running)
		s.jobs.Vanish(w.ID)
		s.engine.Wake(w.ID)
		if o := s.reach(w.ID, spawner.Stopped).Outcome; o.Cause != spawner.CauseLost {
			t.Errorf("%+v", o)
		}
	}))
}
