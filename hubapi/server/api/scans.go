package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"slipway/hubapi"
	"slipway/hubapi/server/convert"
	"slipway/hubapi/server/feeds"
	"slipway/hubapi/server/web"
	"slipway/internal/errs"
	"slipway/spawner"
)

// ScanHandlers serve scans. What is done to a point is done as to any job.
type ScanHandlers struct {
	lookup
	job     *JobHandlers
	convert *convert.Converter
	feeds   *feeds.Feeds
	jobs    Jobs
	reports Reports
}

// Scan returns the points of the scan that the path names, in order.
func (s *ScanHandlers) Scan(r *http.Request) ([]spawner.Workload, error) {
	id, err := web.Param(r, "id")
	if err != nil {
		return nil, err
	}
	return s.points(r, id)
}

// points copies the points of a scan, in order; look sums one up without that.
func (s *ScanHandlers) points(r *http.Request, id string) (points []spawner.Workload, err error) {
	err = s.job.EachPoint(r, id, func(w *spawner.Workload) { points = append(points, *w) })
	return points, err
}

func (s *ScanHandlers) GetScan(r *http.Request, _ web.None) (hubapi.Scan, error) {
	id, err := web.Param(r, "id")
	if err != nil {
		return hubapi.Scan{}, err
	}
	return s.look(r, id)
}

// scanEvents streams how a scan goes on.
func (s *ScanHandlers) scanEvents(w http.ResponseWriter, r *http.Request) error {
	id, err := web.Param(r, "id")
	if err != nil {
		return err
	}
	scan, err := s.look(r, id)
	if err != nil {
		return err
	}
	return s.feeds.Scan(w, r, scan)
}

// look sums up a scan as it is now.
func (s *ScanHandlers) look(r *http.Request, id string) (hubapi.Scan, error) {
	sum := convert.NewTally()
	if err := s.job.EachPoint(r, id, sum.Add); err != nil {
		return hubapi.Scan{}, err
	}
	return s.convert.Scan(sum), nil
}

// WhyScan explains the first point that waits. When none does but those that are held, it says how to release them.
func (s *ScanHandlers) WhyScan(r *http.Request, _ web.None) (hubapi.Explanation, error) {
	points, err := s.Scan(r)
	if err != nil {
		return hubapi.Explanation{}, err
	}
	waits := func(w spawner.Workload) bool {
		return convert.State(&w) == hubapi.JobPending && !w.Held ||
			Running(w) && strings.HasPrefix(s.reports.Detail(w), spawner.HeldAt)
	}
	if i := slices.IndexFunc(points, waits); i >= 0 {
		return s.job.Why(r, points[i])
	}
	scan := s.convert.Scan(convert.TallyOf(points))
	out := hubapi.Explanation{Job: scan.ID, Summary: "none of its points waits", Clauses: []hubapi.Clause{}}
	if scan.Held > 0 {
		out.Summary, out.Remedy = fmt.Sprintf("nothing waits but the %d of its %d points that are held", scan.Held, scan.Points), "`slipway jobs release "+scan.ID+"`"
	}
	return out, nil
}

// errNothing says that there was nothing to do.
var errNothing = errors.New("nothing to do")

// Act is what is done to one job.
type Act func(ctx context.Context, c spawner.Caller, id spawner.ID) (spawner.Workload, error)

// ChangeScan serves what is done to every point of a scan for which it is meant.
func (s *ScanHandlers) ChangeScan(
	do Act, meant func(spawner.Workload) bool,
) func(*http.Request, web.None) (hubapi.ScanChange, error) {
	return func(r *http.Request, _ web.None) (hubapi.ScanChange, error) {
		points, err := s.Scan(r)
		if err != nil {
			return hubapi.ScanChange{}, err
		}
		out := hubapi.ScanChange{}
		refusal := s.each(
			r, slices.DeleteFunc(slices.Clone(points), func(w spawner.Workload) bool { return !meant(w) }), do, &out,
		)
		if refusal != nil && out.Changed == 0 {
			return hubapi.ScanChange{}, refusal
		}
		if refusal != nil {
			out.Why = errs.Brief(refusal)
		}
		out.Scan = s.scanNow(r, points)
		return out, nil
	}
}

// scanNow is a scan after a change, which may have taken all its points away.
func (s *ScanHandlers) scanNow(r *http.Request, before []spawner.Workload) hubapi.Scan {
	if now, err := s.look(r, before[0].Scan); err == nil {
		return now
	}
	gone := s.convert.Scan(convert.TallyOf(before))
	gone.Points, gone.States, gone.Held, gone.Waiting, gone.Failure = 0, map[hubapi.State]int{}, 0, "", ""
	return gone
}

// atOnce is how many points are changed at a time: each waits for the disk, and the engine saves together those that
// wait together.
const atOnce = 500

// each does something to each point, counts how it went in out, and gives the first refusal.
func (s *ScanHandlers) each(r *http.Request, points []spawner.Workload, do Act, out *hubapi.ScanChange) (first error) {
	var mu sync.Mutex // guards first, out and at
	var doing sync.WaitGroup
	at := len(points)
	turns := make(chan int)
	for range min(atOnce, len(points)) {
		doing.Go(func() {
			for i := range turns {
				_, err := do(r.Context(), web.CallerOf(r.Context()), points[i].ID)
				mu.Lock()
				switch {
				case err == nil:
					out.Changed++
				case errors.Is(err, errNothing), errs.Is(err, errs.NotFound): // removed meanwhile
				default:
					out.Refused++
					if i < at {
						first, at = err, i
					}
				}
				mu.Unlock()
			}
		})
	}
	for i := range points {
		turns <- i
	}
	close(turns)
	doing.Wait()
	return first
}

// For which points of a scan a change is meant. What cannot be done to one of these is told, and done to the others.
func anyPoint(spawner.Workload) bool { return true }

func Active(w spawner.Workload) bool { return w.Phase.Active() }

func NotHeld(w spawner.Workload) bool { return w.Phase.Active() && !w.Held }

func Running(w spawner.Workload) bool { return convert.State(&w) == hubapi.JobRunning }

// ReleaseHeld releases a job that its owner or a batch system holds. Another there is nothing to do for.
func (s *ScanHandlers) ReleaseHeld(ctx context.Context, c spawner.Caller, id spawner.ID) (spawner.Workload, error) {
	w, err := s.jobs.Release(ctx, c, id)
	if errs.Is(err, errs.Conflict) {
		if now, _ := s.workloads.Get(ctx, c, id); !now.Held {
			return now, errNothing
		}
	}
	return w, err
}

// RemoveEnded removes a job that has ended or was canceled. It returns at once: that it goes is certain.
func (s *ScanHandlers) RemoveEnded(ctx context.Context, c spawner.Caller, id spawner.ID) (spawner.Workload, error) {
	w, err := s.workloads.Get(ctx, c, id)
	if err == nil {
		err = hasEnded(w)
	}
	if err != nil {
		return w, err
	}
	return w, s.workloads.Remove(ctx, c, id)
}

// hasEnded also says so of a job that was canceled and is about to end.
func hasEnded(w spawner.Workload) error {
	if w.Phase.Active() && w.Want != spawner.WantStopped {
		return errs.New(errs.Conflict, "job %s has not ended", w.ID).With("cancel it first")
	}
	return nil
}

// retryScan tries the points of a scan again that are in the states named: those that failed where none is. One that
// was canceled was ended on purpose.
func (s *ScanHandlers) retryScan(r *http.Request, req hubapi.RetryRequest) (hubapi.ScanChange, error) {
	again, meant, err := s.job.Again(req)
	if err != nil {
		return hubapi.ScanChange{}, err
	}
	return s.ChangeScan(again, meant)(r, web.None{})
}

func (s *ScanHandlers) resubmitScan(r *http.Request, req hubapi.ResubmitRequest) (hubapi.Jobs, error) {
	points, err := s.Scan(r)
	if err != nil {
		return hubapi.Jobs{}, err
	}
	jobs, err := s.job.resubmit(r, req, points, true)
	if err != nil {
		return hubapi.Jobs{}, err
	}
	return s.job.submitted(web.CallerOf(r.Context()), jobs), nil
}
