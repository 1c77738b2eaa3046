package engine_test

import (
	"testing"
	"time"

	"slipway/internal/errs"
	"slipway/internal/gpu"
	"slipway/spawner"
	"slipway/spawner/catalog"
)

func TestJobIsCheckedWithoutItsEnvironment(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		for name, tc := range map[string]struct {
			by   spawner.Caller
			edit func(*spawner.JobRequest)
			kind errs.Kind // Internal: it is taken
		}{
			"a plain one":            {alice, func(*spawner.JobRequest) {}, errs.Internal},
			"an unknown backend":     {alice, func(r *spawner.JobRequest) { r.Backend = "slurm" }, errs.Invalid},
			"no program":             {alice, func(r *spawner.JobRequest) { r.Argv = nil }, errs.Invalid},
			"a job that asks for it": {spawner.Caller{User: "alice", Hub: "main", Workload: "j-1"}, func(*spawner.JobRequest) {}, errs.Forbidden},
		} {
			r := spawner.JobRequest{Spec: spawner.Spec{Argv: []string{"x"}}}
			tc.edit(&r)
			if _, err := s.Plan(t.Context(), tc.by, r); tc.kind == errs.Internal && err != nil || tc.kind != errs.Internal && !errs.Is(err, tc.kind) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if all, err := s.List(t.Context(), alice); err != nil || len(all) > 0 {
			t.Errorf("it has saved %v, %v", all, err)
		}
	})(t)
}

func TestPlanTellsWhatAJobWouldMeet(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		s.crew.Boot(payload(0))
		r := spawner.JobRequest{Name: "fit", Spec: spawner.Spec{Environment: "ana", Argv: []string{"x"}}}
		plan, err := s.Plan(t.Context(), alice, r)
		if err != nil || plan.Backend != "local" || plan.Free != 1 || plan.Most != 1 || plan.Lacks != "" || plan.Waiting != 0 || plan.Typical >= 0 {
			t.Errorf("%+v, %v", plan, err)
		}
		s.reach(s.submit(alice, r).ID, spawner.Stopped)
		s.reach(s.submit(bob, r).ID, spawner.Running)
		s.submit(bob, r)
		plan, err = s.Plan(t.Context(), alice, r)
		if err != nil || plan.Free != 0 || plan.Waiting != 1 || plan.Lacks != "1 of 1 places taken" || plan.Typical != time.Minute {
			t.Errorf("%+v, %v", plan, err)
		}
	})(t)
}

func TestAnyBackendIsWhereItStartsFirst(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		r := poolJob()
		r.Backend = spawner.AnyBackend
		first := s.reach(s.submit(alice, r).ID, spawner.Running)
		second := s.submit(alice, r)
		r.Resources.CPUs = 10_000
		r.GPU = gpu.Request{Mode: gpu.Whole}
		third, err := s.Plan(t.Context(), alice, r)
		if first.Backend != "local" || second.Backend != "pool" || err != nil || third.Backend != "pool" {
			t.Errorf("%s, %s, %s, %v", first.Backend, second.Backend, third.Backend, err)
		}
	})(t)
}

// TestAnyBackendWithinItsLimits: a job for any goes only where it may have so much.
func TestAnyBackendWithinItsLimits(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		s.parts.Admits = catalog.JobPolicy{MaxCPUs: 2, MaxMemory: 4 << 30, Most: map[string]catalog.JobMost{"pool": {CPUs: 8}}}.Admits
		s.restart()
		r := poolJob()
		r.Backend = spawner.AnyBackend
		for cpus, want := range map[float64]string{2: "local", 3: "pool", 9: ""} {
			r.Resources.CPUs = cpus
			plan, err := s.Plan(t.Context(), alice, r)
			if plan.Backend != want || (want == "") != errs.Is(err, errs.Invalid) {
				t.Errorf("of %v CPUs: %q, %v", cpus, plan.Backend, err)
			}
		}
	})(t)
}
