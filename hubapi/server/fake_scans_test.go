package server

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/spawner"
)

// SubmitScan enters a job for each point.
func (f *fakeEngine) SubmitScan(ctx context.Context, c spawner.Caller, r spawner.JobRequest, points []spawner.Point) ([]spawner.Workload, error) {
	if c.Spawner {
		return nil, errs.New(errs.Forbidden, "only users")
	}
	var list []spawner.Workload
	for i, p := range points {
		w := spawner.Workload{ID: spawner.ID(fmt.Sprintf("j-p%d", i)), Kind: spawner.Job, Owner: c.User, Hub: c.Hub, Name: r.Name, Phase: spawner.Pending,
			Want: spawner.WantRunning, JobRecord: spawner.JobRecord{Scan: "scan-new", Point: i}, Spec: spawner.Spec{Env: p.Env, Argv: p.Argv}}
		f.set(w)
		list = append(list, w)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.jobs, f.points = append(f.jobs, r), points
	return list, nil
}

// reorder notes what was asked, and does it unless the job runs.
func (f *fakeEngine) reorder(c spawner.Caller, id spawner.ID, what string, may func(spawner.Workload) bool, do func(*spawner.Workload)) (spawner.Workload, error) {
	w, _, err := f.peek(c, id)
	if err != nil {
		return w, err
	}
	f.mu.Lock()
	f.acted = append(f.acted, what+" "+string(id))
	slices.Sort(f.acted) // points are changed side by side
	f.mu.Unlock()
	if !may(w) {
		return w, errs.New(errs.Conflict, "job %s is %s", id, w.Phase).With("do another thing")
	}
	do(&w)
	f.set(w)
	return w, nil
}

func (f *fakeEngine) Hold(_ context.Context, c spawner.Caller, id spawner.ID) (spawner.Workload, error) {
	return f.reorder(c, id, "hold", func(w spawner.Workload) bool { return w.Phase == spawner.Pending }, func(w *spawner.Workload) { w.Held = true })
}

func (f *fakeEngine) Release(_ context.Context, c spawner.Caller, id spawner.ID) (spawner.Workload, error) {
	return f.reorder(c, id, "release", func(w spawner.Workload) bool { return w.Held }, func(w *spawner.Workload) { w.Held = false })
}

func (f *fakeEngine) Requeue(_ context.Context, c spawner.Caller, id spawner.ID) (spawner.Workload, error) {
	return f.reorder(c, id, "requeue", func(w spawner.Workload) bool { return w.Phase == spawner.Running }, func(w *spawner.Workload) { w.Phase = spawner.Pending })
}

// foreign refuses what only a job's owner may have done, as the Manager does.
func (f *fakeEngine) foreign(c spawner.Caller, id spawner.ID) error {
	w, _, err := f.peek(c, id)
	if err == nil && w.Owner != c.User {
		err = errs.New(errs.Forbidden, "job %s is another's", id)
	}
	return err
}

func (f *fakeEngine) Retry(_ context.Context, c spawner.Caller, id spawner.ID, r spawner.Retry) (spawner.Workload, error) {
	if err := f.foreign(c, id); err != nil {
		return spawner.Workload{}, err
	}
	ended := func(w spawner.Workload) bool { return !w.Phase.Active() }
	return f.reorder(c, id, "retry", ended, func(w *spawner.Workload) {
		w.Phase, w.Outcome, w.Attempt = spawner.Pending, nil, w.Attempt+1
		if r.Resources != nil {
			w.Spec.Resources = *r.Resources
		}
		if r.TimeLimit != nil {
			w.Spec.TimeLimit = *r.TimeLimit
		}
	})
}

func (f *fakeEngine) Resubmit(_ context.Context, c spawner.Caller, ids []spawner.ID, r spawner.Resubmission) (list []spawner.Workload, err error) {
	for i, id := range ids {
		if err := f.foreign(c, id); err != nil {
			return nil, err
		}
		w, _, err := f.peek(c, id)
		if err != nil {
			return nil, err
		}
		w.ID, w.Origin, w.Phase, w.Outcome = spawner.ID(fmt.Sprintf("j-again%d", i)), id, spawner.Pending, nil
		if w.Scan = ""; r.Scan {
			w.Scan, w.Point = "scan-again", i
		}
		if r.Resources != nil {
			w.Spec.Resources = *r.Resources
		}
		if r.GPU != nil {
			w.Spec.GPU = *r.GPU
		}
		list = append(list, w)
	}
	for _, w := range list {
		f.set(w)
	}
	return list, nil
}

func (f *fakeEngine) PutBlob(_ context.Context, c spawner.Caller, digest string, r io.Reader) error {
	b, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.blobs = append(f.blobs, fmt.Sprint(c.User, " ", digest, " ", string(b)))
	return nil
}

func (f *fakeEngine) Blob(_ context.Context, _ spawner.Caller, digest string) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(f.stored[digest])), nil
}

func (f *fakeEngine) HasBlob(_ context.Context, c spawner.Caller, digest string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.blobs, func(b string) bool { return strings.HasPrefix(b, fmt.Sprint(c.User, " ", digest, " ")) })
}

func (f *fakeEngine) Progress(id spawner.ID) *control.Progress {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.progress[id]
}

func (f *fakeEngine) Why(_ context.Context, c spawner.Caller, id spawner.ID) (spawner.Explanation, error) {
	if _, _, err := f.peek(c, id); err != nil {
		return spawner.Explanation{}, err
	}
	return spawner.Explanation{Summary: "no slot has " + string(id), Slots: 3, Fit: 1, Clauses: []spawner.Clause{{Words: "2 CPUs", Text: "Cpus >= 2", Excludes: 2, Alone: 1}}}, nil
}

func (f *fakeEngine) Detail(w spawner.Workload) string {
	if w.Phase == spawner.Starting {
		return "Queued at htcondor: no slot"
	}
	return f.Queue(w).String()
}
