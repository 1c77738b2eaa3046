package engine_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"slipway/internal/errs"
	"slipway/spawner"
)

// TestHeldBySomebody: what another holds than its owner she cannot have begin anew, whether it waits or has begun. She
// can cancel it.
func TestHeldBySomebody(t *testing.T) {
	for name, queued := range map[string]bool{"waits": true, "has begun": false} {
		t.Run(name, inPool(func(t *testing.T, s *distant) {
			s.pool.Fill(queued)
			job := s.submit(alice, poolJob())
			<-time.After(time.Minute)
			s.pool.HoldBy(job.ID, "bob", "disk on fire")
			<-time.After(time.Minute)
			type change = func(context.Context, spawner.Caller, spawner.ID) (spawner.Workload, error)
			for what, do := range map[string]change{"hold": s.Hold, "release": s.Release, "requeue": s.Requeue} {
				if _, err := do(t.Context(), alice, job.ID); !errs.Is(err, errs.Forbidden) || !strings.Contains(err.Error(), "by bob: disk on fire") {
					t.Errorf("%s: %v", what, err)
				}
			}
			if w, _ := s.Get(t.Context(), alice, job.ID); w.Moves != 0 || w.Held {
				t.Errorf("it is changed: %+v", w)
			}
			if _, err := s.Stop(t.Context(), alice, job.ID); err != nil {
				t.Error(err)
			}
			s.reach(job.ID, spawner.Stopped)
		}))
	}
}

// TestReleasedThere: who holds a job releases it, and it goes on.
func TestReleasedThere(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		s.pool.Fill(true)
		job := s.submit(alice, poolJob())
		<-time.After(time.Minute)
		s.pool.HoldBy(job.ID, "bob", "disk on fire")
		s.pool.Fill(false)
		<-time.After(time.Hour)
		if s.pool.Runs(job.ID) > 0 {
			t.Fatal("what is held has run")
		}
		s.pool.Unhold(job.ID)
		s.finish(job.ID)
		if w, _ := s.Get(t.Context(), alice, job.ID); w.Moves != 0 {
			t.Errorf("%+v", w)
		}
	})(t)
}
