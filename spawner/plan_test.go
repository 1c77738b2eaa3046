package spawner_test

import (
	"testing"

	"slipway/internal/errs"
	"slipway/spawner"
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
			r := spawner.JobRequest{Argv: []string{"x"}}
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
