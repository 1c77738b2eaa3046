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

// TestJobsExpire: what ended long ago is removed with its files and remembered for a while, by its owner alone; what
// goes on is not.
func TestJobsExpire(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		s.kill()
		s.parts.Retention, s.config.Interval = 30*24*time.Hour, time.Hour
		s.start()
		s.crew.Boot(func(h *spawnertest.Hand) { h.Ready(); h.Exit(0) })
		old := s.reach(s.submit(alice, simpleJob()).ID, spawner.Stopped)
		s.crew.Boot(func(h *spawnertest.Hand) { h.Ready() })
		runs := s.reach(s.submit(alice, simpleJob()).ID, spawner.Running)
		s.away(28 * 24 * time.Hour)
		time.Sleep(24 * time.Hour)
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
		s.away(91 * 24 * time.Hour)
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if _, err := s.Get(t.Context(), alice, old.ID); !errs.Is(err, errs.NotFound) || strings.Contains(err.Error(), "removed") {
			t.Errorf("much later: %v", err)
		}
	})(t)
}

// TestScansExpireWhole: no point of a scan goes while another has not ended, or is tried again, nor before the last one
// does.
func TestScansExpireWhole(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		s.kill()
		s.parts.Retention, s.config.Interval = 2*time.Hour, time.Minute
		s.start()
		play := &tries{fails: 1}
		s.crew.Boot(play.boot)
		jobs := s.scan(alice, 2)
		first, second := s.reach(jobs[0].ID, spawner.Stopped), s.reach(jobs[1].ID, spawner.Stopped)
		if at := s.Expires(first); !at.Equal(second.Outcome.At.Add(2 * time.Hour)) {
			t.Errorf("the first goes at %s, the last ended at %s", at, second.Outcome.At)
		}
		s.crew.Boot(func(h *spawnertest.Hand) { h.Ready() })
		if _, err := s.Retry(t.Context(), alice, first.ID, spawner.Retry{}); err != nil {
			t.Fatal(err)
		}
		s.reach(first.ID, spawner.Running)
		if at := s.Expires(second); !at.IsZero() {
			t.Errorf("the second goes at %s while the first runs", at)
		}
		time.Sleep(24 * time.Hour)
		s.restart()
		synctest.Wait()
		s.crew.Hand(first.ID).Exit(0)
		s.reach(first.ID, spawner.Stopped)
		time.Sleep(90 * time.Minute)
		for _, w := range jobs {
			if _, err := s.Get(t.Context(), alice, w.ID); err != nil {
				t.Errorf("it is gone: %v", err)
			}
		}
		time.Sleep(time.Hour)
		for _, w := range jobs {
			if _, err := s.Get(t.Context(), alice, w.ID); !errs.Is(err, errs.NotFound) {
				t.Errorf("it is there: %v", err)
			}
		}
		for range 2 {
			err := s.Each(t.Context(), alice, first.Scan, func(*spawner.Workload) {})
			if !errs.Is(err, errs.NotFound) || !strings.Contains(err.Error(), "scan "+first.Scan+" ended on 2 January 2000 and was removed on 2 January 2000, 0 days after") {
				t.Error(err)
			}
			if err := s.Each(t.Context(), bob, first.Scan, func(*spawner.Workload) {}); !errs.Is(err, errs.NotFound) || strings.Contains(err.Error(), "removed") {
				t.Errorf("another is told %v", err)
			}
			s.restart()
		}
	})(t)
}

// TestDoubtsOfTheClockStay: a clock that is a year ahead at one start and at the next is believed after a day in which
// the service ran.
func TestDoubtsOfTheClockStay(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		s.kill()
		s.parts.Retention, s.config.Interval = 30*24*time.Hour, time.Minute
		s.start()
		s.crew.Boot(func(h *spawnertest.Hand) { h.Ready(); h.Exit(0) })
		old := s.reach(s.submit(alice, simpleJob()).ID, spawner.Stopped)
		time.Sleep(2 * time.Hour) // it is believed
		s.kill()
		time.Sleep(365 * 24 * time.Hour)
		s.start()
		for range 11 {
			time.Sleep(2 * time.Hour)
			s.reach(s.submit(alice, simpleJob()).ID, spawner.Stopped) // and what is on record is new
			if _, err := s.Get(t.Context(), alice, old.ID); err != nil {
				t.Fatalf("the clock is believed: %v", err)
			}
			s.restart()
		}
		time.Sleep(5 * time.Hour)
		if _, err := s.Get(t.Context(), alice, old.ID); !errs.Is(err, errs.NotFound) {
			t.Errorf("it is not: %v", err)
		}
	})(t)
}
