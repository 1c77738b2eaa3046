package jobs

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
func (j *Jobs) Resubmit(
	ctx context.Context, c spawner.Caller, ids []spawner.ID, r spawner.Resubmission,
) ([]spawner.Workload, error) {
	if jobs := j.repeated(c, r.RequestID); len(jobs) > 0 && c.MaySubmit() {
		return jobs, nil
	}
	olds, err := j.origins(ctx, c, ids)
	if err != nil {
		return nil, err
	}
	req, err := j.admissible(ctx, c, j.requestOf(olds[0], r))
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
	if err := checkScan(each, points, j.engine.IsRemote(req.Backend)); err != nil {
		return nil, err
	}
	digest, err := j.acceptable(ctx, c, req, len(olds))
	if err != nil {
		return nil, err
	}
	req.After = j.undone(req.After)
	jobs := []spawner.Workload{j.jobOf(c, req, digest)}
	if r.Scan || len(olds) > 1 {
		jobs = j.scanOf(c, req, digest, points)
	}
	for i, w := range olds { // also the number of its point, by which a payload knows its share of the scan's input
		jobs[i].Spec.Env, jobs[i].Origin = maps.Clone(w.Spec.Env), w.ID
	}
	return j.submit(ctx, c, jobs, req)
}

// origins returns the jobs that are to be submitted anew.
func (j *Jobs) origins(ctx context.Context, c spawner.Caller, ids []spawner.ID) ([]spawner.Workload, error) {
	if n := len(ids); n == 0 || n > spawner.MostPoints {
		return nil, errs.Bad("jobs", n, "one job, or points of one scan")
	}
	olds := make([]spawner.Workload, len(ids))
	for i, id := range ids {
		w, err := j.engine.Get(ctx, c, id)
		switch {
		case err != nil:
			return nil, err
		case w.Kind.Session():
			return nil, errs.Bad("jobs", id, "the ID of a job: a session is started again")
		case w.Principal() != c.Principal():
			return nil, errs.New(errs.Forbidden, "job %s is another user's: who submits anew does so for herself", id)
		case i > 0 && (w.Scan == "" || w.Scan != olds[0].Scan):
			return nil, errs.Bad("jobs", id, "points of one scan")
		}
		olds[i] = w
	}
	return olds, j.engine.JobFiles().CheckInputs(olds[0])
}

// requestOf returns the request for a job as w is, but for what r changes.
func (j *Jobs) requestOf(w spawner.Workload, r spawner.Resubmission) submission {
	req := submission{JobRequest: spawner.JobRequest{
		Name: *cmp.Or(r.Name, &w.Name), Spec: r.Apply(w.Spec), Backend: cmp.Or(r.Backend, w.Backend),
		RequestID: r.RequestID, Session: r.Session, After: r.After,
	}, links: map[string]string{}, bundle: w.Bundle}
	for _, name := range w.Spec.Inputs {
		req.links[name] = filepath.Join(j.engine.JobFiles().InputDir(w), name)
	}
	return req
}

// submit saves jobs that are asked for together, with the input files of r, all or none.
func (j *Jobs) submit(
	ctx context.Context, c spawner.Caller, jobs []spawner.Workload, r submission,
) ([]spawner.Workload, error) {
	if err := j.engine.Judge(ctx, jobs[0]); err != nil {
		return nil, err
	}
	o := jobs[0].Principal()
	release, err := j.engine.JobFiles().Reserve(o, j.demand(r, len(jobs)).bytes)
	if err != nil {
		return nil, err
	}
	defer release()
	b, err := j.bundleFor(jobs, r)
	if err != nil {
		return nil, err
	}
	if b != "" {
		defer j.letGo(b)
	}
	jobs, err = j.enterJobs(ctx, c, jobs)
	if err != nil {
		return nil, err
	}
	if b != "" {
		j.engine.JobFiles().MeasureBundle(b, o)
	}
	for _, digest := range r.Blobs {
		j.engine.JobFiles().MeasureBlob(o, digest)
	}
	return jobs, j.engine.Sync(ctx)
}
