package sched

import (
	"fmt"
	"time"

	"slipway/internal/errs"
	"slipway/spawner"
)

// full says in words why a user may have no more jobs running now; empty when she may.
func (s *Scheduler) full(c association) string {
	most, have := s.allowances[c.of].Running, s.ledger.jobs[c.of]
	if !c.jobs || most == 0 || have < most {
		return ""
	}
	return fmt.Sprintf("%d of the %d jobs that you may have running at once do", have, most)
}

// Reasons for which jobs are refused though they could run, as metrics name them.
const (
	RefusedWaiting  = "waiting"
	RefusedStorage  = "storage"
	RefusedGPUHours = "gpu_hours"
)

// Afford refuses jobs where their owner would have too many with them, or has had too many GPU hours, and returns the
// reason in a word too. gpu says that they ask for a GPU of this host.
func (s *Scheduler) Afford(o spawner.Principal, jobs int, gpu bool) (reason string, err error) {
	a := s.allowances[o]
	if have := s.jobs[o]; a.Submitted > 0 && jobs > 0 && have+jobs > a.Submitted {
		return RefusedWaiting, errs.New(
			errs.OverQuota,
			"%d of your jobs wait or run, and with %d more they would be more than the %d that you may have at once",
			have, jobs, a.Submitted,
		).With("wait until some have ended, or cancel some: `slipway jobs` lists them")
	}
	if s.recount(o, time.Now()); gpu && a.GPUHours > 0 && s.hours.sum[o] >= a.GPUHours {
		return RefusedGPUHours, errs.New(errs.OverQuota, "%s", s.whySpent(o)).With("ask then, or for no GPU; `slipway jobs du` shows what you have used")
	}
	return "", nil
}

// Allow takes in what a user's jobs may have. Where that is not sure, what was known before counts.
func (s *Scheduler) Allow(o spawner.Principal, a spawner.Allowance, sure bool) {
	if _, known := s.allowances[o]; sure || !known {
		s.allowances[o] = a
	}
}

// Allowance returns what a user's jobs may have, as far as it is known. Reads only.
func (s *Scheduler) Allowance(o spawner.Principal) spawner.Allowance { return s.allowances[o] }
