package engine

import (
	"cmp"
	"context"
	"maps"
	"path/filepath"

	"slipway/internal/errs"
	"slipway/spawner"
)

// Resubmit submits anew: one job as a job unless r says otherwise, several points of a scan as a scan of their own.
// What each of them had of its own, and the input files, are as before.
func (m *Manager) Resubmit(ctx context.Context, c spawner.Caller, ids []spawner.ID, r spawner.Resubmission) ([]spawner.Workload, error) {
	if jobs := m.repeated(c, r.RequestID); len(jobs) > 0 && c.MaySubmit() {
		return jobs, nil
	}
	olds, err := m.origins(ctx, c, ids)
	if err != nil {
		return nil, err
	}
	req, err := m.admissible(ctx, c, m.requestOf(olds[0], r))
	if err != nil {
		return nil, err
	}
	points := make([]spawner.Point, len(olds))
	for i, w := range olds {
		points[i] = spawner.Point{Env: maps.Clone(w.Spec.Env), Argv: w.Spec.Argv}
		delete(points[i].Env, spawner.PointEnv) // scanOf says it
	}
	each := req
	each.Env = nil // each point has it with its own
	if err := checkScan(each, points, m.remote(req.Backend)); err != nil {
		return nil, err
	}
	digest, err := m.acceptable(ctx, c, req, len(olds))
	if err != nil {
		return nil, err
	}
	req.After = m.undone(req.After)
	jobs := []spawner.Workload{m.jobOf(c, req, digest)}
	if r.Scan || len(olds) > 1 {
		jobs = m.scanOf(c, req, digest, points)
	}
	for i, w := range olds { // also the number of its point, by which a payload knows its share of the scan's input
		jobs[i].Spec.Env, jobs[i].Origin = maps.Clone(w.Spec.Env), w.ID
	}
	return m.submit(ctx, c, jobs, req)
}

// origins returns the jobs that are to be submitted anew.
func (m *Manager) origins(ctx context.Context, c spawner.Caller, ids []spawner.ID) ([]spawner.Workload, error) {
	if n := len(ids); n == 0 || n > spawner.MostPoints {
		return nil, errs.Bad("jobs", n, "one job, or points of one scan")
	}
	olds := make([]spawner.Workload, len(ids))
	for i, id := range ids {
		w, err := m.Get(ctx, c, id)
		switch {
		case err != nil:
			return nil, err
		case w.Kind != spawner.Job:
			return nil, errs.Bad("jobs", id, "the ID of a job: a session is started again")
		case w.Principal() != c.Principal():
			return nil, errs.New(errs.Forbidden, "job %s is another user's: who submits anew does so for herself", id)
		case i > 0 && (w.Scan == "" || w.Scan != olds[0].Scan):
			return nil, errs.Bad("jobs", id, "points of one scan")
		}
		olds[i] = w
	}
	return olds, m.files.CheckInputs(olds[0])
}

// requestOf returns the request for a job as w is, but for what r changes.
func (m *Manager) requestOf(w spawner.Workload, r spawner.Resubmission) submission {
	req := submission{JobRequest: spawner.JobRequest{
		Name: *cmp.Or(r.Name, &w.Name), Spec: r.Apply(w.Spec), Backend: cmp.Or(r.Backend, w.Backend), RequestID: r.RequestID, Session: r.Session, After: r.After,
	}, links: map[string]string{}, bundle: w.Bundle}
	for _, name := range w.Spec.Inputs {
		req.links[name] = filepath.Join(m.files.InputDir(w), name)
	}
	return req
}

// submit saves jobs that are asked for together, with the input files of r, all or none.
func (m *Manager) submit(ctx context.Context, c spawner.Caller, jobs []spawner.Workload, r submission) ([]spawner.Workload, error) {
	if err := m.judge(ctx, jobs[0]); err != nil {
		return nil, err
	}
	o := jobs[0].Principal()
	release, err := m.files.Reserve(o, m.demand(r, len(jobs)).bytes)
	if err != nil {
		return nil, err
	}
	defer release()
	b, err := m.bundleFor(jobs, r)
	if err != nil {
		return nil, err
	}
	if b != "" {
		defer m.letGo(b)
	}
	jobs, err = m.enterJobs(ctx, c, jobs)
	if err != nil {
		return nil, err
	}
	if b != "" {
		m.files.MeasureBundle(b, o)
	}
	for _, digest := range r.Blobs {
		m.files.MeasureBlob(o, digest)
	}
	return jobs, m.cfg.Store.Sync(context.WithoutCancel(ctx))
}
