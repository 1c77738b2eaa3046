package jobs

import "slipway/spawner"

// undone returns those of some jobs and scans that are not done.
func (j *Jobs) undone(after []string) []string {
	v := j.engine.View()
	defer v.End()
	return v.Sched().Undone(after)
}

// checkAfter refuses what cannot be waited for.
func (j *Jobs) checkAfter(c spawner.Caller, after []string) error {
	v := j.engine.View()
	defer v.End()
	return v.Sched().CheckDependencies(c.Principal(), after)
}

// checkThere refuses to try a job again that would wait for what has been removed.
func (j *Jobs) checkThere(w spawner.Workload) error {
	v := j.engine.View()
	defer v.End()
	return v.Sched().CheckThere(w)
}
