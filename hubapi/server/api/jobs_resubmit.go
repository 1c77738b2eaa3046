package api

import (
	"net/http"

	"slipway/hubapi"
	"slipway/hubapi/server/convert"
	"slipway/hubapi/server/web"
	"slipway/spawner"
)

func (s *JobHandlers) resubmitJob(r *http.Request, req hubapi.ResubmitRequest) (hubapi.Job, error) {
	w, err := s.Find(r, true)
	if err != nil {
		return hubapi.Job{}, err
	}
	jobs, err := s.resubmit(r, req, []spawner.Workload{w}, false)
	if err != nil {
		return hubapi.Job{}, err
	}
	return s.convert.Job(web.CallerOf(r.Context()), jobs[0]), nil
}

// resubmit submits a job, or the points of a scan, anew. What the request leaves open of resources is as the first has
// it.
func (s *JobHandlers) resubmit(
	r *http.Request, req hubapi.ResubmitRequest, old []spawner.Workload, scan bool,
) ([]spawner.Workload, error) {
	c, first := web.CallerOf(r.Context()), old[0]
	again := spawner.Resubmission{
		Name: req.Name, SpecPatch: convert.Patch(req.JobPatch), Backend: req.Backend, After: req.After, Scan: scan,
		RequestID: req.RequestID, Session: c.Workload,
	}
	var err error
	if again.Resources, again.TimeLimit, err = s.otherwise(first, req.Backend, req.JobLimits); err != nil {
		return nil, err
	}
	if req.GPU != nil {
		slice, err := s.policy.GPU(req.GPU)
		if err != nil {
			return nil, err
		}
		again.GPU = &slice
	}
	ids := make([]spawner.ID, len(old))
	for i, w := range old {
		ids[i] = w.ID
	}
	return s.jobs.Resubmit(r.Context(), c, ids, again)
}

func auditJobAnew(_ *http.Request, _ hubapi.ResubmitRequest, out hubapi.Job) (string, []any) {
	return "a job is submitted anew", []any{"job", out.ID, "environment", out.Environment}
}

func auditScanAnew(_ *http.Request, _ hubapi.ResubmitRequest, out hubapi.Jobs) (string, []any) {
	return "a scan is submitted anew", scanFields(out.Scans[0])
}

func scanFields(s hubapi.Scan) []any {
	return []any{"scan", s.ID, "points", s.Points, "environment", s.Environment}
}
