package api

import (
	"cmp"
	"math"
	"net/http"
	"slices"

	"slipway/hubapi"
	"slipway/hubapi/server/convert"
	"slipway/hubapi/server/web"
	"slipway/internal/errs"
	"slipway/spawner"
)

// choice says which jobs a list is to have.
type choice struct {
	scan          string // whose points; with one is false: everything is meant
	one           bool
	noPoints      bool // the scans in place of their points
	files         bool // with what each job has left
	filter        Filter
	offset, limit int
}

func choiceOf(r *http.Request) (choice, error) {
	q := r.URL.Query()
	c := choice{
		scan: q.Get("scan"), one: q.Has("scan"), noPoints: q.Get("points") == "no", files: q.Get("files") == "yes",
	}
	for _, name := range []string{"points", "files"} {
		if p := q.Get(name); p != "" && p != "yes" && p != "no" {
			return c, errs.Bad(name, p, "yes or no")
		}
	}
	var err error
	if c.filter, err = FilterOf(r); err != nil {
		return c, err
	}
	offset, err := web.WholeNumber(r, "offset", 0, math.MaxInt32)
	if err != nil {
		return c, err
	}
	limit, err := web.WholeNumber(r, "limit", math.MaxInt32, math.MaxInt32)
	c.offset, c.limit = int(offset), int(limit)
	return c, err
}

// has reports whether the list is to have a workload.
func (c choice) has(w *spawner.Workload) bool {
	return w.Kind.Batch() && (!c.noPoints || w.Scan == "") && c.filter.Has(w)
}

// listJobs lists jobs: all; with scan=ID the points of a scan, and it; with points=no the scans in place of their
// points. The filter chooses among jobs and scans, offset and limit among the jobs. files=yes counts what each that has ended has
// left.
func (s *JobHandlers) listJobs(r *http.Request, _ web.None) (hubapi.Jobs, error) {
	c, err := choiceOf(r)
	if err != nil {
		return hubapi.Jobs{}, err
	}
	jobs, sums, err := s.chosen(r, c)
	if err != nil {
		return hubapi.Jobs{}, err
	}
	list := s.convert.Jobs(web.CallerOf(r.Context()), jobs)
	list.Scans = s.convert.Scans(sums)
	if !c.one { // of one scan the list has the points that are chosen, and it
		list.Scans = slices.DeleteFunc(list.Scans, func(scan hubapi.Scan) bool { return !c.filter.HasScan(scan) })
	}
	if c.files {
		s.countFiles(r, list.Jobs)
	}
	return list, nil
}

// countFiles notes what those of the jobs that have ended have left. One that is removed meanwhile has left nothing.
func (s *JobHandlers) countFiles(r *http.Request, jobs []hubapi.Job) {
	for i := range jobs {
		if !jobs[i].State.Ended() {
			continue
		}
		if files, err := s.FilesOf(r.Context(), web.CallerOf(r.Context()), spawner.ID(jobs[i].ID)); err == nil {
			left := hubapi.LeftOf(files)
			jobs[i].Left = &left
		}
	}
}

// chosen copies no more than is asked for, where the order is known beforehand.
func (s *JobHandlers) chosen(r *http.Request, c choice) (jobs []spawner.Workload, sums convert.Tallies, err error) {
	sums = convert.Tallies{}
	matched := 0
	each := func(w *spawner.Workload) {
		if w.Scan != "" && (c.one || c.noPoints) {
			sums.Add(w)
		}
		if !c.has(w) {
			return
		}
		matched++
		if !c.one || matched > c.offset && matched-c.offset <= c.limit {
			jobs = append(jobs, *w)
		}
	}
	if c.one {
		return jobs, sums, s.EachPoint(r, c.scan, each)
	}
	err = s.workloads.Each(r.Context(), web.CallerOf(r.Context()), "", each)
	slices.SortFunc(jobs, older)
	from := min(c.offset, len(jobs))
	return jobs[from:min(len(jobs), from+c.limit)], sums, err
}

// older puts jobs in the order in which they came.
func older(a, b spawner.Workload) int {
	return cmp.Or(
		a.Created.Compare(b.Created), cmp.Compare(a.Scan, b.Scan), cmp.Compare(a.Point, b.Point),
		cmp.Compare(a.ID, b.ID),
	)
}
