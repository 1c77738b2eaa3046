package engine

import (
	"slipway/spawner"
	"slipway/spawner/sched"
)

// needed reports whether a workload has to stay known for a moment, because somebody waits for it who has not seen how
// it ended.
func (r *Records) needed(w *spawner.Workload) bool {
	v := r.View()
	defer v.End()
	return r.sched.Needed(w)
}

// prerequisites is what has become of what a job waits for.
func (r *Records) prerequisites(w *spawner.Workload) sched.Prerequisites {
	v := r.View()
	defer v.End()
	return r.sched.Prerequisites(w)
}

// forsaken is the outcome of a job that waits in vain.
func (r *Records) forsaken(w *spawner.Workload) spawner.Outcome {
	v := r.View()
	defer v.End()
	return r.sched.Forsaken(w)
}
