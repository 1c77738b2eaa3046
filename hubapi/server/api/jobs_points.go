package api

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"

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
func (s *JobHandlers) pointsOf(r *http.Request, req hubapi.JobRequest) ([]spawner.Point, error) {
	switch {
	case req.PointsBlob == "" && req.Points == nil:
		return nil, nil
	case req.PointsBlob == "":
		return enginePoints(req)
	case req.Points != nil:
		return nil, errs.Bad("points_blob", req.PointsBlob, "points or points_blob, and not both")
	}
	release, err := s.web.Reserve(web.CallerOf(r.Context()), pointsLimit)
	if err != nil {
		return nil, err
	}
	defer release()
	file, err := s.files.Blob(r.Context(), web.CallerOf(r.Context()), req.PointsBlob)
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

// EachPoint has each look at the points of a scan in order, as Engine.Each says.
func (s *JobHandlers) EachPoint(r *http.Request, id string, each func(w *spawner.Workload)) error {
	if id == "" {
		return errs.New(errs.NotFound, "a scan has a name").With("`slipway jobs` lists them")
	}
	var owner spawner.User
	err := s.workloads.Each(r.Context(), web.CallerOf(r.Context()), id, func(w *spawner.Workload) {
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
func (s *JobHandlers) submitted(c spawner.Caller, points []spawner.Workload) hubapi.Jobs {
	list := s.convert.Jobs(c, points[:min(len(points), hubapi.SubmittedLimit)])
	list.Scans = []hubapi.Scan{s.convert.Scan(convert.TallyOf(points))}
	return list
}
