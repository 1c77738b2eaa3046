package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/hubapi"
	"slipway/internal/errs"
	"slipway/spawner"
)

// point is a job of alice's scan, in a phase.
func point(n int, phase spawner.Phase, outcome *spawner.Outcome) spawner.Workload {
	w := job(spawner.ID(fmt.Sprintf("j-%d", n)), "alice")
	w.Scan, w.Point, w.Phase, w.Outcome, w.Name = "scan-1", n, phase, outcome, "train"
	w.Spec.Env = map[string]string{"SLIPWAY_PARAMETERS": fmt.Sprintf(`{"k":"%d"}`, n), "k": fmt.Sprint(n), "OTHER": "x"}
	return w
}

func aScan() *fakeEngine {
	return newFake(job("j-alone", "alice"), job("j-bobs", "bob"),
		point(3, spawner.Stopped, &spawner.Outcome{Failed: true, Reason: "out of memory"}), point(2, spawner.Stopped, &spawner.Outcome{}),
		point(1, spawner.Running, nil), point(0, spawner.Starting, nil), point(4, spawner.Pending, nil))
}

// TestFilesOfPointsAreCounted: one request tells what all points have left.
func TestFilesOfPointsAreCounted(t *testing.T) {
	c := start(t, aScan(), nil).client(t, "alice-token")
	list, err := c.PointsAndFiles(t.Context(), "scan-1")
	if err != nil || len(list.Jobs) != 5 {
		t.Fatalf("%+v, %v", list, err)
	}
	for _, j := range list.Jobs {
		if ended := j.State.Ended(); ended != (j.Left != nil) || ended && *j.Left != (hubapi.Left{Files: 1, Bytes: 5}) {
			t.Errorf("%s is %s and has left %+v", j.ID, j.State, j.Left)
		}
	}
	if list, err := c.Points(t.Context(), "scan-1"); err != nil || list.Jobs[3].Left != nil {
		t.Errorf("unasked: %+v, %v", list.Jobs[3].Left, err)
	}
}

func TestScanIsSubmitted(t *testing.T) {
	h := start(t, newFake(), nil)
	c := h.client(t, "alice-token")
	list, err := c.SubmitScan(t.Context(), hubapi.JobRequest{Name: "train", JobSpec: hubapi.JobSpec{
		Environment: "mine", Argv: []string{"sh"},
	}, Env: map[string]string{"A": "b"}, Points: []hubapi.Point{
		{Parameters: map[string]string{"k": "1", "mode": "a \"b\""}}, {Parameters: map[string]string{"k": "2"}, Argv: []string{"other"}}, {},
	}})
	jobs := list.Jobs
	if err != nil || list.Scans[0].ID != "scan-new" || list.Scans[0].Points != 3 || len(jobs) != 3 || jobs[1].Scan != "scan-new" || jobs[1].Point != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	want := []spawner.Point{
		{Env: map[string]string{"k": "1", "mode": `a "b"`, "SLIPWAY_PARAMETERS": `{"k":"1","mode":"a \"b\""}`}},
		{Env: map[string]string{"k": "2", "SLIPWAY_PARAMETERS": `{"k":"2"}`}, Argv: []string{"other"}},
		{Env: map[string]string{"SLIPWAY_PARAMETERS": "{}"}},
	}
	if diff := cmp.Diff(want, h.engine.points); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]map[string]string{{"k": "2"}, {}}, []map[string]string{jobs[1].Parameters, jobs[2].Parameters}); diff != "" {
		t.Error(diff)
	}
	if got := h.engine.jobs[0]; got.Environment != "mine" || got.Env["A"] != "b" {
		t.Errorf("%+v", got)
	}
}

// The answer to thousands of points tells of the first ones.
func TestManyPointsAreNotTold(t *testing.T) {
	h := start(t, newFake(), nil)
	list, err := h.client(t, "alice-token").SubmitScan(t.Context(), hubapi.JobRequest{
		Name: "train", JobSpec: hubapi.JobSpec{Environment: "mine", Argv: []string{"sh"}},
		Points: make([]hubapi.Point, 1000),
	})
	if err != nil {
		t.Fatal(err)
	}
	if scan := list.Scans[0]; scan.Points != 1000 || scan.States[hubapi.JobPending] != 1000 || scan.Name != "train" || len(list.Jobs) != hubapi.SubmittedLimit || list.Jobs[99].Point != 99 {
		t.Errorf("%+v and %d jobs", scan, len(list.Jobs))
	}
	h.saysInLog(t, `msg="a scan is submitted" scan=scan-new points=1000`)
}

func TestScanIsRefused(t *testing.T) {
	if hubapi.PointLimit != spawner.MostPoints {
		t.Errorf("the API takes %d points, the engine %d", hubapi.PointLimit, spawner.MostPoints)
	}
	h := start(t, newFake(), nil)
	with := func(name, value string) []hubapi.Point {
		return []hubapi.Point{{}, {Parameters: map[string]string{name: value}}}
	}
	for name, tc := range map[string]struct {
		points []hubapi.Point
		words  string
	}{
		"too many":        {make([]hubapi.Point, 10_001), "10001 points"},
		"an odd name":     {with("a-b", "1"), "points[1].parameters"},
		"a taken name":    {with("PATH", "1"), "PATH"},
		"in env too":      {with("A", "1"), "not in env too"},
		"a control":       {with("k", "a\nb"), "control"},
		"a long value":    {with("k", strings.Repeat("x", 5000)), "4096 bytes"},
		"the point's own": {with("SLIPWAY_POINT", "7"), "SLIPWAY_POINT"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := h.client(t, "alice-token").SubmitScan(t.Context(), hubapi.JobRequest{
				JobSpec: hubapi.JobSpec{Argv: []string{"sh"}}, Env: map[string]string{"A": "b"}, Points: tc.points,
			})
			if !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), tc.words) || len(err.Error()) > 500 {
				t.Error(err)
			}
		})
	}
	if status, text := h.post(t, "alice-token", "/jobs", `{"argv": ["sh"], "points": []}`); status != http.StatusUnprocessableEntity || !strings.Contains(text, "0 points") {
		t.Errorf("no points: %d %s", status, text)
	}
	if len(h.engine.jobs) > 0 {
		t.Errorf("submitted: %+v", h.engine.jobs)
	}
}

func TestJobIsCheckedBeforehand(t *testing.T) {
	h := start(t, newFake(), nil)
	c := h.client(t, "alice-token")
	for name, tc := range map[string]struct {
		r     hubapi.JobRequest
		field string // empty: it is taken
	}{
		"a plain one": {hubapi.JobRequest{JobSpec: hubapi.JobSpec{Argv: []string{"sh"}}}, ""},
		"no such backend": {hubapi.JobRequest{
			JobSpec: hubapi.JobSpec{Argv: []string{"sh"}}, Backend: "slurm",
		}, "backend"},
		"more than is given": {hubapi.JobRequest{
			JobSpec: hubapi.JobSpec{Argv: []string{"sh"}}, JobLimits: hubapi.JobLimits{Memory: "5T"},
		}, "memory"},
	} {
		_, err := c.CheckJob(t.Context(), tc.r)
		if tc.field == "" && err != nil || tc.field != "" && (!errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), tc.field)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(h.engine.jobs) > 0 {
		t.Errorf("submitted: %+v", h.engine.jobs)
	}
}

// TestHeldIsTold has what is held explained to its owner, also of a scan in which nothing else waits.
func TestHeldIsTold(t *testing.T) {
	h := start(t, newFake(point(0, spawner.Pending, nil), point(1, spawner.Running, nil), point(2, spawner.Stopped, &spawner.Outcome{})), nil)
	c := h.client(t, "alice-token")
	if why, err := c.WhyScan(t.Context(), "scan-1"); err != nil || why.Job != "j-0" {
		t.Errorf("%+v, %v", why, err)
	}
	if _, err := c.HoldJob(t.Context(), "j-0"); err != nil {
		t.Fatal(err)
	}
	job, err := c.Job(t.Context(), "j-0")
	if err != nil || job.Waiting != "you hold it" {
		t.Errorf("%q, %v", job.Waiting, err)
	}
	if why, err := c.WhyJob(t.Context(), "j-0"); err != nil || why.Summary != "you hold it" || !strings.Contains(why.Remedy, "slipway jobs release j-0") {
		t.Errorf("%+v, %v", why, err)
	}
	why, err := c.WhyScan(t.Context(), "scan-1")
	if err != nil || !strings.Contains(why.Summary, "the 1 of its 3 points that are held") || !strings.Contains(why.Remedy, "slipway jobs release scan-1") {
		t.Errorf("%+v, %v", why, err)
	}
}

func TestScanIsShown(t *testing.T) {
	h := start(t, aScan(), nil)
	c := h.client(t, "alice-token")
	want := hubapi.Scan{Meta: hubapi.Meta{
		ID: "scan-1", Name: "train", User: "alice",
	}, Points: 5, States: map[hubapi.State]int{"pending": 2, "running": 1, "done": 1, "failed": 1},
		Waiting: "Queued at htcondor: no slot", Failure: "out of memory"}
	got, err := c.Scan(t.Context(), "scan-1")
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	list, err := c.JobsAndScans(t.Context(), hubapi.JobFilter{})
	if err != nil || len(list.Jobs) != 1 || list.Jobs[0].ID != "j-alone" || !cmp.Equal(list.Scans, []hubapi.Scan{want}) {
		t.Errorf("%+v, %v", list, err)
	}
	list, err = c.Points(t.Context(), "scan-1")
	if err != nil || len(list.Jobs) != 5 || !cmp.Equal(list.Scans, []hubapi.Scan{want}) {
		t.Fatalf("%+v, %v", list, err)
	}
	for i, j := range list.Jobs {
		if j.Point != i || !cmp.Equal(j.Parameters, map[string]string{"k": fmt.Sprint(i)}) {
			t.Errorf("point %d: %+v", i, j)
		}
	}
	if all, err := c.Jobs(t.Context(), hubapi.JobFilter{}); err != nil || len(all) != 6 {
		t.Errorf("%d jobs, %v", len(all), err)
	}
	why, err := c.WhyScan(t.Context(), "scan-1")
	wanted := hubapi.Explanation{Job: "j-0", Summary: "no slot has j-0", Slots: 3, Fit: 1, Clauses: []hubapi.Clause{{Words: "2 CPUs", Text: "Cpus >= 2", Excludes: 2, Alone: 1}}}
	if diff := cmp.Diff(wanted, why); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	late := point(9, spawner.Pending, nil)
	late.Created = time.Unix(9, 0)
	two := newFake(late, point(10, spawner.Starting, nil)) // which are listed the other way round
	if list, err := start(t, two, nil).client(t, "alice-token").JobsAndScans(t.Context(), hubapi.JobFilter{}); err != nil || len(list.Scans) != 1 || !strings.HasPrefix(list.Scans[0].Waiting, "Waiting for room") {
		t.Errorf("%+v, %v: not the first point's wait", list, err)
	}
	for query, want := range map[string]int{"?scan=": 404, "?scan=scan-2": 404, "?points=maybe": 422, "?points=yes": 200} {
		if status, text := h.get(t, hubapi.Base+"/jobs"+query, func(r *http.Request) { r.Header.Set("Authorization", "token alice-token") }); status != want {
			t.Errorf("%s: %d %s", query, status, text)
		}
	}
}

func TestScanIsChanged(t *testing.T) {
	for _, tc := range []struct {
		name  string
		do    func(*hubapi.Client) (hubapi.ScanChange, error)
		want  hubapi.ScanChange // without its scan
		acted []string
		left  map[hubapi.State]int
	}{{
		"hold", func(c *hubapi.Client) (hubapi.ScanChange, error) { return c.HoldScan(t.Context(), "scan-1") },
		hubapi.ScanChange{Changed: 1, Refused: 2, Why: "job j-0 is starting"}, []string{"hold j-0", "hold j-1", "hold j-4"},
		map[hubapi.State]int{"pending": 2, "running": 1, "done": 1, "failed": 1},
	}, {
		"release", func(c *hubapi.Client) (hubapi.ScanChange, error) { return c.ReleaseScan(t.Context(), "scan-1") },
		hubapi.ScanChange{}, []string{"release j-0", "release j-1", "release j-4"}, map[hubapi.State]int{"pending": 2, "running": 1, "done": 1, "failed": 1},
	}, {
		"requeue", func(c *hubapi.Client) (hubapi.ScanChange, error) { return c.RequeueScan(t.Context(), "scan-1") },
		hubapi.ScanChange{Changed: 1}, []string{"requeue j-1"}, map[hubapi.State]int{"pending": 3, "done": 1, "failed": 1},
	}, {
		"cancel", func(c *hubapi.Client) (hubapi.ScanChange, error) { return c.CancelScan(t.Context(), "scan-1") },
		hubapi.ScanChange{Changed: 3}, nil, map[hubapi.State]int{"canceled": 3, "done": 1, "failed": 1},
	}, {
		"remove", func(c *hubapi.Client) (hubapi.ScanChange, error) { return c.RemoveScan(t.Context(), "scan-1") },
		hubapi.ScanChange{Changed: 2, Refused: 3, Why: "job j-0 has not ended"}, nil, map[hubapi.State]int{"pending": 2, "running": 1},
	}} {
		t.Run(tc.name, func(t *testing.T) {
			h := start(t, aScan(), nil)
			got, err := tc.do(h.client(t, "alice-token"))
			if diff := cmp.Diff(tc.left, got.Scan.States); diff != "" || err != nil {
				t.Errorf("%v\n%s", err, diff)
			}
			got.Scan = hubapi.Scan{}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tc.acted, h.engine.acted); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What can be done to no point at all is an error, and not a change of none.
func TestScanRefusesWhole(t *testing.T) {
	h := start(t, newFake(point(0, spawner.Running, nil), point(1, spawner.Running, nil)), nil)
	c := h.client(t, "alice-token")
	if _, err := c.HoldScan(t.Context(), "scan-1"); !errs.Is(err, errs.Conflict) || !strings.Contains(err.Error(), "j-0 is running") {
		t.Error(err)
	}
	if _, err := c.CancelScan(t.Context(), "scan-1"); err != nil {
		t.Error(err)
	}
	gone, err := c.RemoveScan(t.Context(), "scan-1")
	if err != nil || gone.Changed != 2 || gone.Scan.Points != 0 || !gone.Scan.Ended() {
		t.Errorf("%+v, %v", gone, err)
	}
	if _, err := c.Scan(t.Context(), "scan-1"); !errs.Is(err, errs.NotFound) {
		t.Error(err)
	}
}

// Who has canceled need not wait for the ends.
func TestCanceledScanIsRemovedAtOnce(t *testing.T) {
	engine := newFake(point(0, spawner.Running, nil), point(1, spawner.Pending, nil))
	engine.stopping = spawner.Stopping
	c := start(t, engine, nil).client(t, "alice-token")
	if _, err := c.RemoveScan(t.Context(), "scan-1"); !errs.Is(err, errs.Conflict) {
		t.Error(err)
	}
	if _, err := c.CancelScan(t.Context(), "scan-1"); err != nil {
		t.Error(err)
	}
	if gone, err := c.RemoveScan(t.Context(), "scan-1"); err != nil || gone.Changed != 2 || gone.Refused != 0 {
		t.Errorf("%+v, %v", gone, err)
	}
}

func TestJobIsReordered(t *testing.T) {
	h := start(t, newFake(point(0, spawner.Pending, nil), point(1, spawner.Running, nil)), nil)
	c := h.client(t, "alice-token")
	if j, err := c.HoldJob(t.Context(), "j-0"); err != nil || !j.Held {
		t.Errorf("%+v, %v", j, err)
	}
	if j, err := c.ReleaseJob(t.Context(), "j-0"); err != nil || j.Held {
		t.Errorf("%+v, %v", j, err)
	}
	if _, err := c.HoldJob(t.Context(), "j-1"); !errs.Is(err, errs.Conflict) || !strings.Contains(err.Error(), "do another thing") {
		t.Error(err)
	}
	if j, err := c.RequeueJob(t.Context(), "j-1"); err != nil || j.State != hubapi.JobPending {
		t.Errorf("%+v, %v", j, err)
	}
	if why, err := c.WhyJob(t.Context(), "j-1"); err != nil || why.Job != "j-1" || why.Slots != 3 {
		t.Errorf("%+v, %v", why, err)
	}
}
