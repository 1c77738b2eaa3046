package service

import (
	"slices"
	"time"

	"slipway/internal/config"
	"slipway/spawner"
	"slipway/spawner/engine"
)

// judgeJobs puts what the engine needs to say when jobs go on into its configuration.
func (s *service) judgeJobs(c *engine.Config) {
	j := s.cfg.Jobs
	c.SessionsFirst, c.Limits.Retry = j.SessionsFirst, time.Duration(j.RetryPause)
}

// allowances returns what says who may have what of jobs; nil: nobody is limited.
func (s *service) allowances() func(hub string, user spawner.User) (spawner.Allowance, bool) {
	if len(s.cfg.Jobs.Limits) == 0 {
		return nil
	}
	return s.allowance
}

// allowance says what the jobs of a hub's user may have: the first entry of jobs.limits that she is among. sure is
// false where that may be hers by her Hub's groups, which are not known just now.
func (s *service) allowance(hub string, user spawner.User) (a spawner.Allowance, sure bool) {
	principal := s.principal(hub, user)
	groups, all := s.groupsAt(hub, user)
	for _, l := range s.cfg.Jobs.Limits {
		everybody := len(l.Users)+len(l.Groups) == 0
		among := func(group string) bool { return slices.Contains(groups, group) }
		if everybody || slices.Contains(l.Users, principal) || slices.ContainsFunc(l.Groups, among) {
			return allowanceOf(l), true
		}
		if !all && slices.ContainsFunc(l.Groups, func(group string) bool { return s.fromHub(group, hub) }) {
			return allowanceOf(l), false
		}
	}
	return spawner.Allowance{}, true
}

func allowanceOf(l config.JobLimit) spawner.Allowance {
	return spawner.Allowance{
		Running: l.MaxRunning, Submitted: l.MaxSubmitted, Storage: int64(l.MaxStorage), GPUHours: l.MaxGPUHours,
		Window: time.Duration(l.GPUHoursWindow),
	}
}
