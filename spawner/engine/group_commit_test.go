package engine_test

import (
	"sync"
	"testing"

	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/spawnertest"
)

// TestChangesTogether: what many ask for at once, also of the same job, comes out as if each had asked alone; what
// cannot be saved is told to each of them, and changes nothing.
func TestChangesTogether(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		scan, err := s.SubmitScan(t.Context(), alice, simpleJob(), points(200))
		if err != nil {
			t.Fatal(err)
		}
		atOnce := func(do func(w spawner.Workload) error) (failed int) {
			var mu sync.Mutex
			var all sync.WaitGroup
			for _, w := range scan {
				all.Go(func() {
					if err := do(w); err != nil {
						mu.Lock()
						failed++
						mu.Unlock()
					}
				})
			}
			all.Wait()
			return failed
		}
		stop := func(w spawner.Workload) error { _, err := s.Stop(t.Context(), alice, w.ID); return err }
		s.fill(true)
		if n := atOnce(stop); n != len(scan) {
			t.Errorf("on a full disk %d of %d were refused", n, len(scan))
		}
		if w, _ := s.Get(t.Context(), alice, scan[150].ID); w.Want != spawner.WantRunning {
			t.Errorf("it is wanted %s", w.Want)
		}
		s.fill(false)
		if n := atOnce(func(w spawner.Workload) error {
			if _, err := s.Stop(t.Context(), bob, w.ID); !errs.Is(err, errs.NotFound) {
				t.Errorf("by another: %v", err)
			}
			return stop(w)
		}); n > 0 {
			t.Errorf("%d were not canceled", n)
		}
		for _, w := range scan {
			if w = s.reach(w.ID, spawner.Stopped); !w.Outcome.Canceled {
				t.Errorf("%+v", w.Outcome)
			}
		}
		turns := map[int64]bool{}
		if n := atOnce(func(w spawner.Workload) error {
			for range 2 { // the same request twice tries nothing twice
				if _, err := s.Retry(t.Context(), alice, w.ID, spawner.Retry{RequestID: "again"}); err != nil {
					return err
				}
			}
			return nil
		}); n > 0 {
			t.Errorf("%d were not tried again", n)
		}
		s.restart()
		for _, w := range scan {
			now, err := s.Get(t.Context(), alice, w.ID)
			if err != nil || now.Attempt != 1 || turns[now.Turn] {
				t.Errorf("try %d, turn %d, %v", now.Attempt, now.Turn, err)
			}
			turns[now.Turn] = true
		}
		if n := atOnce(func(w spawner.Workload) error { return s.Remove(t.Context(), alice, w.ID) }); n > 0 {
			t.Errorf("%d were not removed", n)
		}
		for _, w := range scan {
			s.gone(w.ID)
		}
	})(t)
}

// TestLimitsHoldTogether: of many that are tried again at once no more begin than their owner may have.
func TestLimitsHoldTogether(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		const most, all = 20, 200
		s.kill()
		s.parts.Allowance = func(string, spawner.User) (spawner.Allowance, bool) { return spawner.Allowance{Submitted: most}, true }
		s.start()
		s.crew.Boot(func(h *spawnertest.Hand) { h.Ready(); h.Exit(1) })
		var jobs []spawner.Workload
		for range all / most {
			for _, w := range s.scan(alice, most) {
				jobs = append(jobs, s.reach(w.ID, spawner.Stopped))
			}
		}
		s.crew.Boot(func(h *spawnertest.Hand) { h.Ready() })
		var asked sync.WaitGroup
		for _, w := range jobs {
			asked.Go(func() {
				_, err := s.Retry(t.Context(), alice, w.ID, spawner.Retry{})
				if err != nil && !errs.Is(err, errs.OverQuota) {
					t.Error(err)
				}
			})
		}
		asked.Wait()
		active := 0
		for _, w := range jobs {
			if now, _ := s.Get(t.Context(), alice, w.ID); now.Phase.Active() {
				active++
			}
		}
		if active != most {
			t.Errorf("%d of the %d that she may have wait or run", active, most)
		}
	})(t)
}
