package api

import (
	"net/http"

	"slipway/hubapi"
	"slipway/hubapi/server/convert"
	"slipway/hubapi/server/web"
	"slipway/spawner"
)

// checkJob says what a job would meet, and refuses what submit would, whatever the environment: it may have to be made
// first, which takes a while.
func (s *JobHandlers) checkJob(r *http.Request, req hubapi.JobRequest) (hubapi.JobPlan, error) {
	job, err := s.jobRequest(r, req)
	if err != nil {
		return hubapi.JobPlan{}, err
	}
	if job.Points, err = s.pointsOf(r, req); err != nil {
		return hubapi.JobPlan{}, err
	}
	p, err := s.jobs.Plan(r.Context(), web.CallerOf(r.Context()), job)
	if err != nil {
		return hubapi.JobPlan{}, err
	}
	typical := -1.0
	if p.Typical >= 0 {
		typical = p.Typical.Seconds()
	}
	return hubapi.JobPlan{
		Backend: p.Backend, Typical: typical,
		Availability: convert.Availability(p.Room),
		Points:       hubapi.PointLimit, Stored: p.Use.Stored, Store: p.Use.Store, GPUHours: p.Use.GPUHours,
		GPUMost: p.Use.GPUMost,
	}, nil
}

// jobsUsage says what the caller's jobs keep, and what she has used.
func (s *JobHandlers) jobsUsage(r *http.Request, _ web.None) (hubapi.JobsUsage, error) {
	u, err := s.reports.Usage(r.Context(), web.CallerOf(r.Context()))
	if err != nil {
		return hubapi.JobsUsage{}, err
	}
	out := hubapi.JobsUsage{
		Stored: u.Stored, Store: u.Store, Inputs: u.Inputs, GPUHours: u.GPUHours, GPUMost: u.GPUMost,
		Window: u.Window.String(),
		Kept:   make([]hubapi.KeptFiles, 0, len(u.Kept)),
	}
	for _, k := range u.Kept {
		out.Kept = append(out.Kept, wireKept(k))
	}
	return out, nil
}

func wireKept(k spawner.Kept) hubapi.KeptFiles {
	return hubapi.KeptFiles{ID: k.ID, Name: k.Name, Bytes: k.Bytes, Files: k.Files, Expires: convert.Moment(k.Expires)}
}
