package engine_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/spawnertest"
)

// TestNoStepBack: nothing of a start tells of less than what came before, though its image takes long and it is tried
// twice; one that begins anew, after it was up, starts from the beginning.
func TestNoStepBack(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		s.pool.Inject(spawnertest.Fault{Op: spawnertest.Start, Step: spawnertest.Before, Times: 2})
		s.pool.Fill(true)
		w := s.startSession(poolRequest("alice", "one"))
		<-time.After(time.Minute)
		s.pool.Fill(false)
		w = s.reach(w.ID, spawner.Running)
		s.pool.Evict(w.ID, "a job of higher priority", false)
		s.again(w.ID, 1)
		way, downs := 0, 0
		for _, e := range s.events(w.ID, "one") {
			if e.Percent < way {
				if downs++; way != 100 {
					t.Errorf("%q: %d after %d", e.Message, e.Percent, way)
				}
			}
			way = e.Percent
		}
		if downs != 1 || way != 100 {
			t.Errorf("%d steps back, and at last %d", downs, way)
		}
	})(t)
}

// TestWhatAStartWaitsFor is told: what the service lacks itself is not the batch system's fault.
func TestWhatAStartWaitsFor(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		uplink := s.config.Launch.Uplink
		locked := true
		s.kill()
		s.config.Launch.Uplink = func(ctx context.Context, w spawner.Workload) (*control.Uplink, error) {
			if locked {
				locked = false
				return nil, errs.New(errs.Unavailable, "the directory of users does not answer")
			}
			return uplink(ctx, w)
		}
		s.start()
		s.pool.Inject(spawnertest.Fault{Op: spawnertest.Start, Step: spawnertest.Before})
		w := s.reach(s.startSession(poolRequest("alice", "one")).ID, spawner.Running)
		told := messages(s.events(w.ID, "one"))
		for _, want := range []string{
			"What it needs is not at hand now (the directory of users does not answer); trying again. If this lasts, tell your administrator",
			"pool takes nothing now; trying again. If this lasts, tell your administrator",
		} {
			if !slices.Contains(told, want) {
				t.Errorf("told %q, and not %q", told, want)
			}
		}
	})(t)
}

// TestRequeuedWhereNobodyReachesIt: its owner sees what a job waits for that is to begin anew, and whose worker is cut
// off.
func TestRequeuedWhereNobodyReachesIt(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		job := s.reach(s.submit(alice, poolJob()).ID, spawner.Running)
		mend := s.pool.Inject(spawnertest.Fault{Op: spawnertest.Stop, Step: spawnertest.Before, Times: spawnertest.Always})
		if _, err := s.Requeue(t.Context(), alice, job.ID); err != nil {
			t.Fatal(err)
		}
		<-time.After(10 * time.Second)
		if got := s.Detail(job); got != "it is being ended on node1" {
			t.Errorf("detail %q", got)
		}
		<-time.After(5 * time.Minute)
		if got := s.Detail(job); !strings.HasPrefix(got, "it is being ended on node1, which pool does not reach now") {
			t.Errorf("detail %q", got)
		}
		mend()
		s.again(job.ID, 1)
		s.finish(job.ID)
	})(t)
}
