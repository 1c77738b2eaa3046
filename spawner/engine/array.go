package engine

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
func (m *Manager) SubmitScan(ctx context.Context, c spawner.Caller, req spawner.JobRequest, points []spawner.Point) ([]spawner.Workload, error) {
	if n := len(points); n == 0 || n > spawner.MostPoints {
		return nil, errs.Bad("points", n, fmt.Sprintf("from 1 to %d points", spawner.MostPoints))
	}
	r, err := m.admissible(ctx, c, submission{JobRequest: req})
	if err != nil {
		return nil, err
	}
	if jobs := m.repeated(c, r.RequestID); len(jobs) > 0 {
		return jobs, nil
	}
	if err := m.checkPoints(r, points); err != nil {
		return nil, err
	}
	digest, err := m.acceptable(ctx, c, r, len(points))
	if err != nil {
		return nil, err
	}
	r.After = m.undone(r.After)
	return m.submit(ctx, c, m.scanOf(c, r, digest, points), r)
}

// checkPoints refuses points that are too much, each or together.
func (m *Manager) checkPoints(r submission, points []spawner.Point) error {
	if err := checkScan(r, points, m.remote(r.Backend)); err != nil {
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

func (m *Manager) scanOf(c spawner.Caller, r submission, digest string, points []spawner.Point) []spawner.Workload {
	scan := "scan-" + strings.TrimPrefix(string(newID(spawner.Job)), "j-")
	jobs := make([]spawner.Workload, len(points))
	for n, p := range points {
		w := m.jobOf(c, r.at(p), digest)
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
func scanIn(jobs map[spawner.ID]*entry, scan string) []spawner.Workload {
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
func (m *Manager) enterJobs(ctx context.Context, c spawner.Caller, jobs []spawner.Workload) ([]spawner.Workload, error) {
	tx := m.Begin()
	defer tx.End()
	if first := tx.repeated(c, jobs[0].Launch); len(first) > 0 {
		return first, nil
	}
	if why, err := tx.afford(jobs[0].Principal(), demand{jobs: len(jobs)}); err != nil { // others of hers may have come since it was looked at
		m.refused[why]++
		return nil, err
	}
	records := make(map[string]any, len(jobs))
	for i := range jobs {
		jobs[i].Turn, jobs[i].Rev = m.sched.NextTurn(), 1
		records[string(jobs[i].ID)] = &jobs[i] // a copy of each would be as much memory again
	}
	err := m.mu.save(func() error { return m.cfg.Store.PutAll(context.WithoutCancel(ctx), bucket, records) })
	if err != nil {
		if b := jobs[0].Bundle; b != "" && !errs.Is(err, errs.NoSpace) {
			m.held[b]++ // they may be saved all the same, which the next start of the service shows
		}
		return nil, fmt.Errorf("save %d jobs: %w", len(jobs), err)
	}
	for _, w := range jobs {
		e := newEntry(w)
		tx.entered(spawner.Workload{}, e)
		m.sched.Asked(&e.Workload)
		tx.note(e, spawner.Event{Percent: 0, Message: tx.welcome(e)})
	}
	return jobs, nil
}

// welcome says where a job that was just submitted stands.
func (v View) welcome(e *entry) string {
	if e.AwaitsDependencies() {
		words := v.m.sched.Awaited(&e.Workload)
		return strings.ToUpper(words[:1]) + words[1:]
	}
	return "Queued on " + v.m.at(e.Backend)
}
