package server

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway/hubapi"
	"slipway/internal/errs"
	"slipway/spawner"
)

// listed are jobs of alice's from some days, a scan of two points, and a job of bob's.
func listed() *fakeEngine {
	now := time.Now()
	one := func(id spawner.ID, owner spawner.User, name string, days int, phase spawner.Phase, o *spawner.Outcome) spawner.Workload {
		w := job(id, owner)
		w.Name, w.Created, w.Phase, w.Outcome = name, now.Add(-time.Duration(days)*24*time.Hour), phase, o
		return w
	}
	failed := &spawner.Outcome{Failed: true}
	points := []spawner.Workload{one("j-p0", "alice", "Scan Fit", 3, spawner.Stopped, &spawner.Outcome{}), one("j-p1", "alice", "Scan Fit", 3, spawner.Stopped, failed)}
	for i := range points {
		points[i].Scan, points[i].Point = "scan-7", i
	}
	return newFake(append(points, one("j-old", "alice", "Fit", 20, spawner.Stopped, failed), one("j-new", "alice", "refit", 1, spawner.Running, nil),
		one("j-other", "alice", "train", 0, spawner.Pending, nil), one("j-bobs", "bob", "fit", 1, spawner.Running, nil))...)
}

func TestJobsAreChosenByNameTimeAndState(t *testing.T) {
	c := start(t, listed(), nil).client(t, "alice-token")
	ids := func(list hubapi.Jobs) (ids []string) {
		for _, j := range list.Jobs {
			ids = append(ids, j.ID)
		}
		for _, s := range list.Scans {
			ids = append(ids, s.ID)
		}
		slices.Sort(ids)
		return ids
	}
	for filter, want := range map[hubapi.JobFilter][2]string{ // scans, and their points in place of them
		{}:                                    {"j-new j-old j-other scan-7", "j-new j-old j-other j-p0 j-p1"},
		{Name: "fit"}:                         {"j-new j-old scan-7", "j-new j-old j-p0 j-p1"},
		{Name: " FIT "}:                       {"j-new j-old scan-7", "j-new j-old j-p0 j-p1"},
		{Name: "j-o"}:                         {"j-old j-other", "j-old j-other"},
		{Name: "scan-"}:                       {"scan-7", ""},
		{State: "failed"}:                     {"j-old scan-7", "j-old j-p1"},
		{State: "running,pending"}:            {"j-new j-other", "j-new j-other"},
		{Since: "2d"}:                         {"j-new j-other", "j-new j-other"},
		{Since: "1w", State: "failed"}:        {"scan-7", "j-p1"},
		{Since: "1w", Name: "fit"}:            {"j-new scan-7", "j-new j-p0 j-p1"},
		{Since: "1w", Name: "[", State: ""}:   {"", ""},
		{Since: "2025-01-01", Name: "j-bobs"}: {"", ""},
	} {
		scans, err := c.JobsAndScans(t.Context(), filter)
		if got := strings.Join(ids(scans), " "); got != want[0] || err != nil {
			t.Errorf("%+v: %s, %v; want %s", filter, got, err, want[0])
		}
		points, err := c.Jobs(t.Context(), filter)
		if got := strings.Join(ids(hubapi.Jobs{Jobs: points}), " "); got != want[1] || err != nil {
			t.Errorf("%+v, points: %s, %v; want %s", filter, got, err, want[1])
		}
	}
	for _, filter := range []hubapi.JobFilter{{State: "broken"}, {Since: "yesterday"}, {State: "failed,"}} {
		if _, err := c.Jobs(t.Context(), filter); !errs.Is(err, errs.Invalid) {
			t.Errorf("%+v: %v", filter, err)
		}
	}
}

func TestJobsOnPagesAreChosen(t *testing.T) {
	engine := listed()
	for n := range 120 {
		w := job(spawner.ID(fmt.Sprintf("j-many%03d", n)), "alice")
		w.Name, w.Phase, w.Created = fmt.Sprintf("many %d", n), spawner.Stopped, time.Now().Add(-time.Duration(n)*time.Minute-40*24*time.Hour)
		engine.work[w.ID] = w
	}
	p := startPages(t, engine, nil).visitor(t, "alice")
	for query, want := range map[string]struct {
		shown       string // the first two and the last of jobs and scans
		count       int
		said, never string
	}{
		"":                          {"scan-7 j-other j-many016", 21, "Page 1 of 7", "Newer"},
		"?page=7":                   {"j-many117 j-many118 j-many119", 3, "Page 7 of 7", "Older"},
		"?page=99":                  {"j-many117 j-many118 j-many119", 3, "Page 7 of 7", "Older"},
		"?page=0":                   {"scan-7 j-other j-many016", 21, "Page 1 of 7", "Newer"},
		"?name=many&page=2":         {"j-many020 j-many021 j-many039", 20, `href="?name=many&amp;page=3#found"`, "scan-7"},
		"?name=fit&state=failed":    {"scan-7 j-old j-old", 2, "<option selected>failed</option>", "Page 1 of"},
		"?since=7d":                 {"scan-7 j-other j-new", 3, `<option value="7d" selected>the last 7 days</option>`, "j-old"},
		"?since=2w":                 {"scan-7 j-other j-new", 3, `<option value="2w" selected>since 2w</option>`, "j-old"},
		"?name=%3Cimg%20src=x%3E":   {"", 0, "No jobs match.", "<img"},
		"?name=nothing&state=done":  {"", 0, `href="/base/services/slipway/">Show all</a>`, "Page 1 of"},
		"?all=1&name=bob&since=30d": {"", 0, "No jobs match.", "j-bobs"}, // she is no administrator
	} {
		r := p.get(prefix + query)
		var ids []string
		for _, a := range elements(t, r.Body.String(), "a") {
			if id, ok := strings.CutPrefix(attribute(a, "id"), "page-"); ok && !strings.HasPrefix(id, "s-") {
				ids = append(ids, id)
			}
		}
		shown := ""
		if len(ids) > 1 {
			shown = strings.Join([]string{ids[0], ids[1], ids[len(ids)-1]}, " ")
		}
		if body := r.Body.String(); r.Code != http.StatusOK || shown != want.shown || len(ids) != want.count || !strings.Contains(body, want.said) || strings.Contains(body, want.never) {
			t.Errorf("%q: %d, %s (%d), wanted %+v", query, r.Code, shown, len(ids), want)
		}
	}
	for _, query := range []string{"?state=odd", "?since=soon", "?page=x"} {
		if r := p.get(prefix + query); r.Code != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d", query, r.Code)
		}
	}
}
