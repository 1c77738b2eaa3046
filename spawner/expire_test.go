package spawner_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/spawnertest"
)

// TestJobsExpire: what ended long ago is removed with its files and remembered for a while, by its owner alone; what goes on is not.
func TestJobsExpire(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		s.kill()
		s.config.KeepJobs, s.config.Interval = 30*24*time.Hour, 10*time.Minute
		s.start()
		s.crew.Boot(func(h *spawnertest.Hand) { h.Ready(); h.Exit(0) })
		old := s.reach(s.submit(alice, simpleJob()).ID, spawner.Stopped)
		s.crew.Boot(func(h *spawnertest.Hand) { h.Ready() })
		runs := s.reach(s.submit(alice, simpleJob()).ID, spawner.Running)
		time.Sleep(29 * 24 * time.Hour)
		synctest.Wait()
		if _, err := s.Get(t.Context(), alice, old.ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * 24 * time.Hour)
		synctest.Wait()
		for range 2 {
			_, err := s.Get(t.Context(), alice, old.ID)
			if !errs.Is(err, errs.NotFound) || !strings.Contains(err.Error(), "job "+string(old.ID)+" ended on 1 January 2000 and was removed on 31 January 2000, 30 days after its end") {
				t.Error(err)
			}
			if _, err := s.Get(t.Context(), bob, old.ID); !errs.Is(err, errs.NotFound) || strings.Contains(err.Error(), "removed") {
				t.Errorf("another is told %v", err)
			}
			s.restart()
		}
		if w, err := s.Get(t.Context(), alice, runs.ID); err != nil || w.Phase != spawner.Running {
			t.Errorf("one that runs: %s, %v", w.Phase, err)
		}
		time.Sleep(92 * 24 * time.Hour)
		synctest.Wait()
		if _, err := s.Get(t.Context(), alice, old.ID); !errs.Is(err, errs.NotFound) || strings.Contains(err.Error(), "removed") {
			t.Errorf("much later: %v", err)
		}
	})(t)
}
