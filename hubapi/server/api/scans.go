package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"slipway/hubapi"
	"slipway/hubapi/server/audit"
	"slipway/hubapi/server/convert"
	"slipway/hubapi/server/web"
	"slipway/internal/errs"
	"slipway/spawner"
)

// pointsLimit is the most bytes of all points of a scan.
const pointsLimit = 8 << 20

// pointsOf returns the points of a request, also those that the caller has put into her store; nil of one that is no
// scan.
func (s *API) pointsOf(r *http.Request, req hubapi.JobRequest) ([]spawner.Point, error) {
	switch {
	case req.PointsBlob == "" && req.Points == nil:
		return nil, nil
	case req.PointsBlob == "":
		return enginePoints(req)
	case req.Points != nil:
		return nil, errs.Bad("points_blob", req.PointsBlob, "points or points_blob, and not both")
	}
	release, err := s.cfg.Web.Reserve(web.CallerOf(r.Context()), pointsLimit)
	if err != nil {
		return nil, err
	}
	defer release()
	file, err := s.cfg.Files.Blob(r.Context(), web.CallerOf(r.Context()), req.PointsBlob)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, pointsLimit+1))
	if err != nil {
		return nil, err
	}
	if len(text) > pointsLimit {
		return nil, errs.Bad(
			"points_blob", fmt.Sprintf("more than %d bytes", pointsLimit), "less in all: put what is long into a file",
		)
	}
	if err := json.Unmarshal(text, &req.Points); err != nil {
		return nil, errs.Bad("points_blob", req.PointsBlob, "the digest of a JSON list of points, as points has them")
	}
	return enginePoints(req)
}

// enginePoints makes the engine's form of a scan's points.
func enginePoints(req hubapi.JobRequest) ([]spawner.Point, error) {
	if n := len(req.Points); n == 0 || n > hubapi.PointLimit {
		return nil, errs.Bad(
			"points", fmt.Sprintf("%d points", n),
			fmt.Sprintf("from 1 to %d; more are several scans", hubapi.PointLimit),
		)
	}
	size := 0
	points := make([]spawner.Point, len(req.Points))
	for i, p := range req.Points {
		if err := checkPoint(fmt.Sprintf("points[%d]", i), p, req.Env); err != nil {
			return nil, err
		}
		env := map[string]string{}
		maps.Copy(env, p.Parameters)
		all, err := json.Marshal(env)
		if err != nil {
			return nil, err
		}
		if size += len(all) + len(fmt.Sprint(p.Argv)); size > pointsLimit {
			return nil, errs.Bad(
				"points", fmt.Sprintf("more than %d bytes", pointsLimit), "less in all: put what is long into a file",
			)
		}
		env[convert.ParametersEnv] = string(all)
		points[i] = spawner.Point{Env: env, Argv: p.Argv}
	}
	return points, nil
}

func checkPoint(field string, p hubapi.Point, common map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(p.Parameters)) {
		if err := hubapi.CheckParameter(field+".parameters", name, p.Parameters[name]); err != nil {
			return err
		}
		if _, twice := common[name]; twice {
			return errs.Bad(field+".parameters", name, "a name that is not in env too")
		}
	}
	return nil
}

// Scan returns the points of the scan that the path names, in order.
func (s *API) Scan(r *http.Request) ([]spawner.Workload, error) {
	id, err := web.Param(r, "id")
	if err != nil {
		return nil, err
	}
	return s.points(r, id)
}

// points copies the points of a scan, in order; look sums one up without that.
func (s *API) points(r *http.Request, id string) (points []spawner.Workload, err error) {
	err = s.EachPoint(r, id, func(w *spawner.Workload) { points = append(points, *w) })
	return points, err
}

// EachPoint has each look at the points of a scan in order, as Engine.Each says.
func (s *API) EachPoint(r *http.Request, id string, each func(w *spawner.Workload)) error {
	if id == "" {
		return errs.New(errs.NotFound, "a scan has a name").With("`slipway jobs` lists them")
	}
	var owner spawner.User
	err := s.cfg.Workloads.Each(r.Context(), web.CallerOf(r.Context()), id, func(w *spawner.Workload) {
		owner = w.Owner
		each(w)
	})
	if err == nil {
		audit.OnBehalf(r.Context(), owner)
	}
	return err
}

// submitted tells of a scan that was: it, and the first of its points. All of them may be megabytes, which nobody
// reads.
func (s *API) submitted(c spawner.Caller, points []spawner.Workload) hubapi.Jobs {
	list := s.cfg.Convert.Jobs(c, points[:min(len(points), hubapi.SubmittedLimit)])
	list.Scans = []hubapi.Scan{s.cfg.Convert.Scan(convert.TallyOf(points))}
	return list
}

func (s *API) GetScan(r *http.Request, _ web.None) (hubapi.Scan, error) {
	id, err := web.Param(r, "id")
	if err != nil {
		return hubapi.Scan{}, err
	}
	return s.look(r, id)
}

// scanEvents streams how a scan goes on.
func (s *API) scanEvents(w http.ResponseWriter, r *http.Request) error {
	id, err := web.Param(r, "id")
	if err != nil {
		return err
	}
	scan, err := s.look(r, id)
	if err != nil {
		return err
	}
	return s.cfg.Feeds.Scan(w, r, scan)
}

// look sums up a scan as it is now.
func (s *API) look(r *http.Request, id string) (hubapi.Scan, error) {
	sum := convert.NewTally()
	if err := s.EachPoint(r, id, sum.Add); err != nil {
		return hubapi.Scan{}, err
	}
	return s.cfg.Convert.Scan(sum), nil
}

// WhyScan explains the first point that waits. When none does but those that are held, it says how to release them.
func (s *API) WhyScan(r *http.Request, _ web.None) (hubapi.Explanation, error) {
	points, err := s.Scan(r)
	if err != nil {
		return hubapi.Explanation{}, err
	}
	waits := func(w spawner.Workload) bool {
		return convert.State(&w) == hubapi.JobPending && !w.Held ||
			Running(w) && strings.HasPrefix(s.cfg.Reports.Detail(w), spawner.HeldAt)
	}
	if i := slices.IndexFunc(points, waits); i >= 0 {
		return s.Why(r, points[i])
	}
	scan := s.cfg.Convert.Scan(convert.TallyOf(points))
	out := hubapi.Explanation{Job: scan.ID, Summary: "none of its points waits", Clauses: []hubapi.Clause{}}
	if scan.Held > 0 {
		out.Summary, out.Remedy = fmt.Sprintf("nothing waits but the %d of its %d points that are held", scan.Held, scan.Points), "`slipway jobs release "+scan.ID+"`"
	}
	return out, nil
}

func (s *API) Why(r *http.Request, w spawner.Workload) (hubapi.Explanation, error) {
	if convert.KeepsBack(web.CallerOf(r.Context()), w) {
		return hubapi.Explanation{Job: string(w.ID), Summary: convert.YouHold, Clauses: []hubapi.Clause{}, Remedy: "`slipway jobs release " + string(w.ID) + "`"}, nil
	}
	id := w.ID
	e, err := s.cfg.Reports.Why(r.Context(), web.CallerOf(r.Context()), id)
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

// errNothing says that there was nothing to do.
var errNothing = errors.New("nothing to do")

// Act is what is done to one job.
type Act func(ctx context.Context, c spawner.Caller, id spawner.ID) (spawner.Workload, error)

// ChangeScan serves what is done to every point of a scan for which it is meant.
func (s *API) ChangeScan(
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
func (s *API) scanNow(r *http.Request, before []spawner.Workload) hubapi.Scan {
	if now, err := s.look(r, before[0].Scan); err == nil {
		return now
	}
	gone := s.cfg.Convert.Scan(convert.TallyOf(before))
	gone.Points, gone.States, gone.Held, gone.Waiting, gone.Failure = 0, map[hubapi.State]int{}, 0, "", ""
	return gone
}

// atOnce is how many points are changed at a time: each waits for the disk, and the engine saves together those that
// wait together.
const atOnce = 500

// each does something to each point, counts how it went in out, and gives the first refusal.
func (s *API) each(r *http.Request, points []spawner.Workload, do Act, out *hubapi.ScanChange) (first error) {
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
func (s *API) ReleaseHeld(ctx context.Context, c spawner.Caller, id spawner.ID) (spawner.Workload, error) {
	w, err := s.cfg.Jobs.Release(ctx, c, id)
	if errs.Is(err, errs.Conflict) {
		if now, _ := s.cfg.Workloads.Get(ctx, c, id); !now.Held {
			return now, errNothing
		}
	}
	return w, err
}

// RemoveEnded removes a job that has ended or was canceled. It returns at once: that it goes is certain.
func (s *API) RemoveEnded(ctx context.Context, c spawner.Caller, id spawner.ID) (spawner.Workload, error) {
	w, err := s.cfg.Workloads.Get(ctx, c, id)
	if err == nil {
		err = hasEnded(w)
	}
	if err != nil {
		return w, err
	}
	return w, s.cfg.Workloads.Remove(ctx, c, id)
}

// hasEnded also says so of a job that was canceled and is about to end.
func hasEnded(w spawner.Workload) error {
	if w.Phase.Active() && w.Want != spawner.WantStopped {
		return errs.New(errs.Conflict, "job %s has not ended", w.ID).With("cancel it first")
	}
	return nil
}
