package jobs

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"slipway/internal/errs"
	"slipway/internal/units"
	"slipway/spawner"
	"slipway/spawner/engine"
)

// What all points of a scan may bring along together: each is a record with its command and variables, and where jobs
// run on other hosts each carries the files there.
const (
	scanCommandLimit = 64 << 20 // bytes
	scanFileLimit    = 100_000  // points times files
	scanCarryLimit   = 64 << 30 // bytes, times points
)

// SubmitScan saves one job for each point, all or none, and returns at once. The jobs share their input files. Of a
// request that is repeated it gives the jobs of the first time.
func (j *Jobs) SubmitScan(
	ctx context.Context, c spawner.Caller, req spawner.JobRequest, points []spawner.Point,
) ([]spawner.Workload, error) {
	if n := len(points); n == 0 || n > spawner.MostPoints {
		return nil, errs.Bad("points", n, fmt.Sprintf("from 1 to %d points", spawner.MostPoints))
	}
	r, err := j.admissible(ctx, c, submission{JobRequest: req})
	if err != nil {
		return nil, err
	}
	if jobs := j.repeated(c, r.RequestID); len(jobs) > 0 {
		return jobs, nil
	}
	if err := j.checkPoints(r, points); err != nil {
		return nil, err
	}
	digest, err := j.acceptable(ctx, c, r, len(points))
	if err != nil {
		return nil, err
	}
	r.After = j.undone(r.After)
	return j.submit(ctx, c, j.scanOf(c, r, digest, points), r)
}

// checkPoints refuses points that are too much, each or together.
func (j *Jobs) checkPoints(r submission, points []spawner.Point) error {
	if err := checkScan(r, points, j.engine.IsRemote(r.Backend)); err != nil {
		return err
	}
	for n, p := range points {
		if err := checkSizes(r.at(p)); err != nil {
			return fmt.Errorf("point %d: %w", n, err)
		}
	}
	return nil
}

// checkScan refuses a scan whose points are too much together, though each of them would do.
func checkScan(r submission, points []spawner.Point, remote bool) error {
	argv, each := sizeOf(r.Argv, nil), sizeOf(nil, r.Env)+sizeOf(r.Out, nil)+sizeOf(r.After, nil)
	command, input := 0, 0
	for _, p := range points {
		command += each + sizeOf(nil, p.Env) + cmp.Or(sizeOf(p.Argv, nil), argv)
	}
	for _, content := range r.Files {
		input += len(content)
	}
	for _, path := range r.links {
		if info, err := os.Stat(path); err == nil {
			input += int(info.Size())
		}
	}
	files := len(r.Files) + len(r.links)
	switch n := len(points); {
	case command > scanCommandLimit:
		return errs.Bad("argv", fmt.Sprintf("%s with env, for %d points", units.MemoryWords(int64(command)), n),
			"at most "+units.MemoryWords(scanCommandLimit)+" for all points together: put what is long into a file, or make several scans of it")
	case remote && n*files > scanFileLimit:
		return errs.Bad("files", fmt.Sprintf("%d files for each of %d points", files, n),
			fmt.Sprintf("at most %d for all points together where jobs run on other hosts: pack them into one, or use your home", scanFileLimit))
	case remote && n*input > scanCarryLimit:
		return errs.Bad("files", fmt.Sprintf("%s for each of %d points", units.MemoryWords(int64(input)), n),
			"at most "+units.MemoryWords(scanCarryLimit)+" for all points together where jobs run on other hosts: put them into the environment, or use your home")
	default:
		return nil
	}
}

// sizeOf returns how many bytes a command and variables are, with the one that ends each: a million empty words are not
// nothing.
func sizeOf(argv []string, env map[string]string) int {
	bytes := 0
	for _, a := range argv {
		bytes += len(a) + 1
	}
	for k, v := range env {
		bytes += len(k) + len(v) + 2
	}
	return bytes
}

// at returns the request for one point.
func (r submission) at(p spawner.Point) submission {
	env := maps.Clone(r.Env)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, p.Env)
	r.Env = env
	if len(p.Argv) > 0 {
		r.Argv = p.Argv
	}
	return r
}

func (j *Jobs) scanOf(c spawner.Caller, r submission, digest string, points []spawner.Point) []spawner.Workload {
	scan := "scan-" + strings.TrimPrefix(string(engine.NewID(spawner.Job)), "j-")
	jobs := make([]spawner.Workload, len(points))
	for n, p := range points {
		w := j.jobOf(c, r.at(p), digest)
		w.Scan, w.Point = scan, n
		if n > 0 {
			w.Created = jobs[0].Created
		}
		w.Spec.Env[spawner.PointEnv] = strconv.Itoa(n)
		if r.RequestID != "" && n > 0 { // the first bears the request's own name, by which a repetition finds it
			w.Launch = fmt.Sprintf("%s.p%d", r.RequestID, n)
		}
		jobs[n] = w
	}
	return jobs
}

// scanIn returns the points of a scan in order.
func scanIn(jobs map[spawner.ID]*engine.Entry, scan string) []spawner.Workload {
	var points []spawner.Workload
	for _, e := range jobs {
		if e.Scan == scan {
			points = append(points, e.Workload)
		}
	}
	slices.SortFunc(points, func(a, b spawner.Workload) int { return a.Point - b.Point })
	return points
}

// enterJobs saves jobs that are asked for together, all or none, unless an equal request has come first.
func (j *Jobs) enterJobs(ctx context.Context, c spawner.Caller, jobs []spawner.Workload) ([]spawner.Workload, error) {
	tx := j.engine.Begin()
	defer tx.End()
	if first := j.repeatedIn(tx.View, c, jobs[0].Launch); len(first) > 0 {
		return first, nil
	}
	// others of hers may have come since it was looked at
	if why, err := j.affordIn(tx.View, jobs[0].Principal(), demand{jobs: len(jobs)}); err != nil {
		tx.CountRefused(why)
		return nil, err
	}
	err := tx.Insert(ctx, jobs, func(e *engine.Entry) {
		tx.Sched().Asked(&e.Workload)
		tx.Note(e, spawner.Event{Percent: 0, Message: j.welcome(tx.View, e)})
	})
	if err != nil {
		if b := jobs[0].Bundle; b != "" && !errs.Is(err, errs.NoSpace) {
			tx.HoldBundle(b) // they may be saved all the same, which the next start of the service shows
		}
		return nil, fmt.Errorf("save %d jobs: %w", len(jobs), err)
	}
	return jobs, nil
}

// welcome says where a job that was just submitted stands.
func (j *Jobs) welcome(v engine.View, e *engine.Entry) string {
	if e.AwaitsDependencies() {
		words := v.Sched().Awaited(&e.Workload)
		return strings.ToUpper(words[:1]) + words[1:]
	}
	return "Queued on " + j.engine.At(e.Backend)
}
