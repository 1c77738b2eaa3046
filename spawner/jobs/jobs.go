package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"slipway/internal/errs"
	"slipway/internal/gpu"
	"slipway/internal/units"
	"slipway/spawner"
	"slipway/spawner/engine"
	"slipway/spawner/jobfiles"
)

// submission is a request for jobs, with what has been found of it here.
type submission struct {
	spawner.JobRequest
	links  map[string]string // input files that are here already: where, by name
	bundle spawner.ID        // in which links lie, if it is to be that of the new jobs too
}

// SubmitJob saves a job and returns at once; Await and Events tell how it goes on.
func (j *Jobs) SubmitJob(ctx context.Context, c spawner.Caller, req spawner.JobRequest) (spawner.Workload, error) {
	r, err := j.admissible(ctx, c, submission{JobRequest: req})
	if err != nil {
		return spawner.Workload{}, err
	}
	if jobs := j.repeated(c, r.RequestID); len(jobs) > 0 {
		return jobs[0], nil
	}
	digest, err := j.acceptable(ctx, c, r, 1)
	if err != nil {
		return spawner.Workload{}, err
	}
	r.After = j.undone(r.After)
	jobs, err := j.submit(ctx, c, []spawner.Workload{j.jobOf(c, r, digest)}, r)
	if err != nil {
		return spawner.Workload{}, err
	}
	return jobs[0], nil
}

// admissible refuses what c may not ask for at all, and fills in what r leaves open.
func (j *Jobs) admissible(ctx context.Context, c spawner.Caller, r submission) (submission, error) {
	if !c.MaySubmit() {
		return r, errs.New(errs.Forbidden, "jobs are submitted by users, from outside or from a session")
	}
	r.GPU = j.engine.InGroup(r.GPU, c.Hub, c.User)
	var err error
	if r.Backend = cmp.Or(r.Backend, j.cfg.Backend); r.Backend == spawner.AnyBackend {
		r.Backend, err = j.choose(ctx, c, r)
	}
	if err := errors.Join(err, spawner.CheckLaunch("request_id", r.RequestID), j.engine.Remembers()); err != nil {
		return r, err
	}
	r.links, err = j.findBlobs(c, r)
	return r, err
}

// acceptable refuses what can never run, and so many jobs where their owner may not have them, and gives the digest of
// the environment.
func (j *Jobs) acceptable(ctx context.Context, c spawner.Caller, r submission, jobs int) (digest string, err error) {
	if err := j.checkJob(ctx, c, r); err != nil {
		return "", err
	}
	if err := j.afford(c.Principal(), j.demand(r, jobs)); err != nil {
		return "", err
	}
	return j.cfg.Environment(ctx, c.Hub, c.User, r.Environment)
}

func (j *Jobs) jobOf(c spawner.Caller, r submission, digest string) spawner.Workload {
	now := time.Now()
	names := []string{}
	for name := range r.Files {
		names = append(names, name)
	}
	for name := range r.links {
		names = append(names, name)
	}
	slices.Sort(names)
	w := spawner.Workload{
		ID: engine.NewID(spawner.Job), Kind: spawner.Job, Owner: c.User, Hub: c.Hub, Name: r.Name, Session: r.Session,
		Backend: r.Backend, Spec: r.Spec,
		Want: spawner.WantRunning, Phase: spawner.Pending, Created: now, Since: now, Started: now,
		RemoteRecord: spawner.RemoteRecord{Remote: j.engine.IsRemote(r.Backend)},
		JobRecord:    spawner.JobRecord{After: r.After},
	}
	w.Spec.Environment, w.Spec.Inputs = digest, names
	w.Launch = cmp.Or(r.RequestID, string(w.ID))
	return w
}

func (j *Jobs) checkJob(ctx context.Context, c spawner.Caller, r submission) error {
	b := j.engine.Configured(r.Backend)
	switch {
	case !slices.Contains(j.engine.JobBackends(), r.Backend):
		return errs.Bad(
			"backend", r.Backend,
			"leave it out, or name one of "+strings.Join(append(j.engine.JobBackends(), spawner.AnyBackend), ", "),
		)
	case len(r.Argv) == 0 || r.Argv[0] == "":
		return errs.Bad("argv", fmt.Sprint(r.Argv), "the program to run and its arguments")
	case j.cfg.Environment == nil:
		return errs.New(errs.Missing, "this service keeps no environments")
	}
	if why := j.engine.NeverFits(r.Backend, r.Resources); why != "" {
		return errs.New(errs.OverQuota, "this job can never start here: %s", why).With("ask for less")
	}
	if err := j.engine.CheckGPU(r.GPU); err != nil && !j.engine.IsRemote(r.Backend) { // there it is for judge to say
		return err
	}
	if err := b.Check(ctx); err != nil {
		return fmt.Errorf("backend %s cannot run jobs: %w", r.Backend, err)
	}
	names := []error{spawner.CheckName("name", r.Name), checkSizes(r), jobfiles.CheckPatterns(r.Out)}
	if r.Priority < -spawner.MostPriority || r.Priority > spawner.MostPriority {
		outOfRange := &errs.Error{Kind: errs.Invalid, Field: "priority", Message: fmt.Sprintf(
			"priority: %d is not from -%d to %d", r.Priority, spawner.MostPriority, spawner.MostPriority,
		)}
		names = append(names, outOfRange.With("it is among your own jobs: those of a higher one go first"))
	}
	if r.Retries < 0 {
		names = append(names, errs.Bad("retries", r.Retries, fmt.Sprintf("from 0 to %d", spawner.MostRetries)))
	}
	if r.Retries > spawner.MostRetries {
		names = append(names, errs.Over("retries", fmt.Sprint(r.Retries), fmt.Sprint(spawner.MostRetries), "a job"))
	}
	for name := range r.Files {
		names = append(names, jobfiles.CheckInputName(name))
	}
	if err := errors.Join(append(names, j.checkAfter(c, r.After))...); err != nil {
		return err
	}
	_, err := j.cfg.Account(ctx, c.Hub, c.User)
	return err
}

// What one job may bring along: its command and variables travel in one message to the agent, and every file is one
// more.
const (
	commandLimit = 1 << 20 // bytes
	inputLimit   = 1000    // files
)

func checkSizes(r submission) error {
	bytes := sizeOf(r.Argv, r.Env)
	for k := range r.Env {
		if gpu.Reserved(k) {
			return errs.Bad("env", k, "leave it out: which GPU is seen follows from the slice that was asked for")
		}
	}
	switch {
	case bytes > commandLimit:
		return errs.Bad(
			"argv", fmt.Sprintf("%d bytes with env", bytes),
			"at most "+units.MemoryWords(commandLimit)+": put more into a file",
		)
	case len(r.Files)+len(r.links) > inputLimit:
		return errs.Bad(
			"files", fmt.Sprintf("%d files", len(r.Files)+len(r.links)),
			fmt.Sprintf("at most %d: pack them into one, or use your home", inputLimit),
		)
	default:
		return nil
	}
}

// repeated finds what an earlier, equal request made: a job, or the jobs of a scan.
func (j *Jobs) repeated(c spawner.Caller, request string) []spawner.Workload {
	if request == "" {
		return nil
	}
	v := j.engine.View()
	defer v.End()
	return j.repeatedIn(v, c, request)
}

func (j *Jobs) repeatedIn(v engine.View, c spawner.Caller, request string) []spawner.Workload {
	mine := v.Owned(c.Principal())
	for _, e := range mine {
		switch {
		case e.Kind.Session() || e.Launch != request:
		case e.Scan == "":
			return []spawner.Workload{e.Workload}
		default:
			return scanIn(mine, e.Scan)
		}
	}
	return nil
}
