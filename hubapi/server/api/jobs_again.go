package api

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"slipway/hubapi"
	"slipway/hubapi/server/convert"
	"slipway/hubapi/server/web"
	"slipway/internal/errs"
	"slipway/spawner"
)

// retryJob tries a job again. One that is done only where that is said.
func (s *JobHandlers) retryJob(r *http.Request, req hubapi.RetryRequest) (hubapi.Job, error) {
	again, _, err := s.Again(req)
	if err != nil {
		return hubapi.Job{}, err
	}
	return s.changeJob(again)(r, web.None{})
}

// Again returns what trying one job again is, and for which it is meant.
func (s *JobHandlers) Again(req hubapi.RetryRequest) (do Act, meant func(spawner.Workload) bool, err error) {
	states := req.States
	for _, state := range states {
		if !state.Ended() {
			return nil, nil, errs.Bad(
				"states", state, "some of done, failed and canceled: what has not ended is not tried again",
			)
		}
	}
	if len(states) == 0 {
		states = []hubapi.State{hubapi.JobFailed}
	}
	meant = func(w spawner.Workload) bool { return slices.Contains(states, convert.State(&w)) }
	do = func(ctx context.Context, c spawner.Caller, id spawner.ID) (spawner.Workload, error) {
		w, err := s.workloads.Get(ctx, c, id)
		if err != nil {
			return w, err
		}
		retry := spawner.Retry{Of: endings(req.States), RequestID: req.RequestID}
		if retry.Resources, retry.TimeLimit, err = s.otherwise(w, "", req.JobLimits); err != nil {
			return w, err
		}
		return s.jobs.Retry(ctx, c, id, retry)
	}
	return do, meant, nil
}

// endings returns the engine's words for states in which jobs are that have ended.
func endings(states []hubapi.State) (of []spawner.Ending) {
	words := map[hubapi.State]spawner.Ending{
		hubapi.JobDone: spawner.Done, hubapi.JobFailed: spawner.Failed, hubapi.JobCanceled: spawner.Canceled,
	}
	for _, state := range states {
		of = append(of, words[state])
	}
	return of
}

// otherwise reads what a job is to have in place of what w has, on a backend (empty: the same). Nil: as before.
func (s *JobHandlers) otherwise(
	w spawner.Workload, backend string, asked hubapi.JobLimits,
) (*spawner.Resources, *time.Duration, error) {
	moves := backend != "" && backend != w.Backend // which may give less
	if !moves && asked == (hubapi.JobLimits{}) {
		return nil, nil, nil
	}
	had, anew := w.Spec.Resources, asked.TimeLimit != nil
	if asked.CPUs == nil {
		asked.CPUs = had.CPUs
	}
	if asked.Memory == nil {
		asked.Memory = float64(had.Memory)
	}
	if asked.TimeLimit == nil && w.Spec.TimeLimit > 0 {
		asked.TimeLimit = w.Spec.TimeLimit.String()
	}
	res, d, err := s.policy.On(cmp.Or(backend, w.Backend)).Resolve(asked.CPUs, asked.Memory, asked.TimeLimit)
	switch {
	case err != nil:
		return nil, nil, err
	case !anew:
		return &res, nil, nil
	default:
		return &res, &d, nil
	}
}
