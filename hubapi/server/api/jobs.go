package api

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"

	"slipway/hubapi"
	"slipway/hubapi/server/convert"
	"slipway/hubapi/server/feeds"
	"slipway/hubapi/server/web"
	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/catalog"
)

// JobHandlers serve jobs, their input files and what they leave.
type JobHandlers struct {
	lookup
	convert *convert.Converter
	feeds   *feeds.Feeds
	jobs    Jobs
	reports Reports
	files   Files
	policy  catalog.JobPolicy
}

// submit answers with a Job or, of a request with points, with a Jobs as submitted gives it.
func (s *JobHandlers) submit(r *http.Request, req hubapi.JobRequest) (any, error) {
	job, err := s.jobRequest(r, req)
	if err != nil {
		return nil, err
	}
	points, err := s.pointsOf(r, req)
	if err != nil {
		return nil, err
	}
	if points == nil {
		w, err := s.jobs.SubmitJob(r.Context(), web.CallerOf(r.Context()), job)
		return s.convert.Job(web.CallerOf(r.Context()), w), err
	}
	all, err := s.jobs.SubmitScan(r.Context(), web.CallerOf(r.Context()), job, points)
	if err != nil {
		return nil, err
	}
	return s.submitted(web.CallerOf(r.Context()), all), nil
}

// jobRequest makes the engine's request of the API's.
func (s *JobHandlers) jobRequest(r *http.Request, req hubapi.JobRequest) (spawner.JobRequest, error) {
	res, limit, err := s.policy.On(req.Backend).Resolve(req.CPUs, req.Memory, req.TimeLimit)
	if err != nil {
		return spawner.JobRequest{}, err
	}
	spec := convert.Spec(req)
	spec.Resources, spec.TimeLimit = res, limit
	spec.GPU, err = s.policy.GPU(req.GPU)
	return spawner.JobRequest{
		Name: req.Name, Backend: req.Backend, RequestID: req.RequestID, Session: web.CallerOf(r.Context()).Workload,
		Files: req.Files, Blobs: req.Blobs, After: req.After,
		Spec: spec,
	}, err
}

func (s *JobHandlers) job(r *http.Request, _ web.None) (hubapi.Job, error) {
	w, err := s.Find(r, true)
	return s.convert.Job(web.CallerOf(r.Context()), w), err
}

// changeJob serves what is done to one job.
func (s *JobHandlers) changeJob(do Act) func(*http.Request, web.None) (hubapi.Job, error) {
	return func(r *http.Request, _ web.None) (hubapi.Job, error) {
		w, err := s.Find(r, true)
		if err == nil {
			w, err = do(r.Context(), web.CallerOf(r.Context()), w.ID)
		}
		return s.convert.Job(web.CallerOf(r.Context()), w), err
	}
}

func (s *JobHandlers) whyJob(r *http.Request, _ web.None) (hubapi.Explanation, error) {
	w, err := s.Find(r, true)
	if err != nil {
		return hubapi.Explanation{}, err
	}
	return s.Why(r, w)
}

func (s *JobHandlers) removeJob(r *http.Request, _ web.None) (web.None, error) {
	w, err := s.Find(r, true)
	if err == nil {
		err = hasEnded(w)
	}
	if err != nil {
		return web.None{}, err
	}
	return web.None{}, s.remove(r, w.ID)
}

func (s *JobHandlers) jobFiles(r *http.Request, _ web.None) (hubapi.Files, error) {
	w, err := s.Find(r, true)
	if err != nil {
		return hubapi.Files{Files: []hubapi.File{}}, err
	}
	files, err := s.FilesOf(r.Context(), web.CallerOf(r.Context()), w.ID)
	return hubapi.Files{Files: files}, err
}

// FilesOf lists the files that a job has left; none are a list too.
func (s *JobHandlers) FilesOf(ctx context.Context, c spawner.Caller, id spawner.ID) ([]hubapi.File, error) {
	files, err := s.files.Files(ctx, c, id)
	list := make([]hubapi.File, 0, len(files))
	for _, f := range files {
		list = append(list, hubapi.File{Name: f.Name, Size: f.Size})
	}
	return list, err
}

func (s *JobHandlers) jobFile(w http.ResponseWriter, r *http.Request) error {
	job, err := s.Find(r, true)
	if err != nil {
		return err
	}
	name, err := web.Param(r, "name")
	if err != nil {
		return err
	}
	return s.SendFile(w, r, web.CallerOf(r.Context()), job.ID, name)
}

func (s *JobHandlers) jobEvents(w http.ResponseWriter, r *http.Request) error {
	found, err := s.Find(r, true)
	if err != nil {
		return err
	}
	return s.feeds.Launch(w, r, found.ID)
}

// SendFile sends a file that a job has left. Whatever is in it, no browser takes it for a page.
func (s *JobHandlers) SendFile(w http.ResponseWriter, r *http.Request, c spawner.Caller, id spawner.ID, name string) error {
	f, size, err := s.files.File(r.Context(), c, id, name)
	if err != nil {
		return err
	}
	defer f.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	if _, err := io.Copy(w, f); err != nil {
		panic(http.ErrAbortHandler) // the reader must not take half a file for a whole one
	}
	return nil
}

// jobLog streams a job's output as it is written.
func (s *JobHandlers) jobLog(w http.ResponseWriter, r *http.Request) error {
	job, err := s.Find(r, true)
	if err != nil {
		return err
	}
	if r.URL.Query().Has("tail") {
		return s.lastLines(w, r, job)
	}
	from, err := web.WholeNumber(r, "from", 0, math.MaxInt64)
	if err != nil {
		return err
	}
	follow, err := web.WholeNumber(r, "follow", 0, 1)
	if err != nil {
		return err
	}
	ctx, cancel := s.web.Stream(r.Context())
	defer cancel()
	log, err := s.files.Log(ctx, web.CallerOf(r.Context()), job.ID, from, follow == 1)
	if err != nil {
		return err
	}
	defer log.Close()
	// behind the opening: a reader who is told of too late a run only begins anew
	if job, err = s.Find(r, true); err != nil {
		return err
	}
	w.Header().Set(hubapi.LogHeader, runOf(job))
	web.AsText(w)
	w.WriteHeader(http.StatusOK)
	flushed := flusher{w, http.NewResponseController(w)}
	_ = flushed.c.Flush() // the headers tell the reader that the job exists
	if _, err := io.Copy(flushed, log); err != nil {
		panic(http.ErrAbortHandler) // the reader goes on where it broke
	}
	return nil
}

// runOf names a run of a job: each has an output of its own.
func runOf(w spawner.Workload) string { return fmt.Sprintf("%d.%d", w.Attempt+1, w.Moves) }

// lastLines gives the end of a job's output.
func (s *JobHandlers) lastLines(w http.ResponseWriter, r *http.Request, job spawner.Workload) error {
	q := r.URL.Query()
	if q.Has("from") || q.Has("follow") {
		return errs.Bad("tail", q.Get("tail"), "tail alone, or from and follow")
	}
	lines, err := web.WholeNumber(r, "tail", 40, tailLimit)
	if err != nil {
		return err
	}
	text, err := s.files.Tail(r.Context(), web.CallerOf(r.Context()), job.ID, int(lines))
	if err != nil {
		return err
	}
	web.AsText(w)
	_, _ = io.WriteString(w, text)
	return nil
}

// flusher sends on what is written at once.
type flusher struct {
	w http.ResponseWriter
	c *http.ResponseController
}

// Write writes and flushes.
func (f flusher) Write(b []byte) (int, error) {
	n, err := f.w.Write(b)
	if err == nil {
		err = f.c.Flush()
	}
	return n, err
}

func auditSubmitted(_ *http.Request, _ hubapi.JobRequest, out any) (string, []any) {
	switch out := out.(type) {
	case hubapi.Job:
		return "a job is submitted", []any{"job", out.ID, "environment", out.Environment}
	case hubapi.Jobs:
		return "a scan is submitted", scanFields(out.Scans[0])
	}
	return "a job is submitted", nil
}

func (s *JobHandlers) Why(r *http.Request, w spawner.Workload) (hubapi.Explanation, error) {
	if convert.KeepsBack(web.CallerOf(r.Context()), w) {
		return hubapi.Explanation{Job: string(w.ID), Summary: convert.YouHold, Clauses: []hubapi.Clause{}, Remedy: "`slipway jobs release " + string(w.ID) + "`"}, nil
	}
	id := w.ID
	e, err := s.reports.Why(r.Context(), web.CallerOf(r.Context()), id)
	out := hubapi.Explanation{
		Job: string(id), Summary: e.Summary, Slots: e.Slots, Fit: e.Fit, Free: e.Free, Clauses: []hubapi.Clause{},
		Remedy: e.Remedy,
	}
	for _, c := range e.Clauses {
		out.Clauses = append(
			out.Clauses, hubapi.Clause{Words: c.Words, Text: c.Text, Excludes: c.Excludes, Alone: c.Alone},
		)
	}
	return out, err
}
