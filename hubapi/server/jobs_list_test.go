package server

import (
	"net/http"
	"strings"
	"testing"

	"slipway/hubapi"
)

func TestLastLinesOfLog(t *testing.T) {
	h := start(t, newFake(job("j-1", "alice")), nil)
	if text, err := h.client(t, "alice-token").JobLogTail(t.Context(), "j-1", 2); err != nil || text != "line\nline\n" {
		t.Errorf("%q, %v", text, err)
	}
	for query, want := range map[string]int{"?tail=x": 422, "?tail=1&follow=1": 422, "?tail=1&from=3": 422, "?tail=3": 200} {
		if status, text := h.get(t, hubapi.Base+"/jobs/j-1/log"+query, func(r *http.Request) { r.Header.Set("Authorization", "token alice-token") }); status != want {
			t.Errorf("%s: %d %s", query, status, text)
		}
	}
}

func TestJobsAreChosen(t *testing.T) {
	h := start(t, aScan(), nil)
	for query, want := range map[string]string{
		"?scan=scan-1&state=failed,done":   "j-2 j-3",
		"?scan=scan-1&limit=2":             "j-0 j-1",
		"?scan=scan-1&limit=2&offset=4":    "j-4",
		"?scan=scan-1&limit=0":             "",
		"?state=running&limit=1":           "j-alone",
		"?points=no&state=running":         "j-alone",
		"?points=no&state=failed":          "",
		"?offset=100":                      "",
		"?scan=scan-1&state=failed,odd":    "422 odd",
		"?limit=-1":                        "422 limit",
		"?offset=x":                        "422 offset",
		"?state=failed,":                   "422 state",
		"?scan=scan-1&limit=9999999999999": "422 limit",
	} {
		status, text := h.get(t, hubapi.Base+"/jobs"+query, func(r *http.Request) { r.Header.Set("Authorization", "token alice-token") })
		if word, refused := strings.CutPrefix(want, "422 "); refused {
			if status != 422 || !strings.Contains(text, word) {
				t.Errorf("%s: %d %s", query, status, text)
			}
			continue
		}
		var list hubapi.Jobs
		if err := strictly(strings.NewReader(text), &list); err != nil || status != 200 {
			t.Fatalf("%s: %d %v", query, status, err)
		}
		var ids []string
		for _, j := range list.Jobs {
			ids = append(ids, j.ID)
		}
		if got := strings.Join(ids, " "); got != want || strings.Contains(query, "scan") != (len(list.Scans) == 1) && !strings.Contains(query, "points") {
			t.Errorf("%s: %q and %d scans", query, got, len(list.Scans))
		}
	}
}

func TestPlanAndUsage(t *testing.T) {
	c := start(t, newFake(), nil).client(t, "alice-token")
	plan, err := c.CheckJob(t.Context(), hubapi.JobRequest{JobSpec: hubapi.JobSpec{Argv: []string{"sh"}}})
	want := hubapi.JobPlan{
		Backend: "local", Availability: hubapi.Availability{Free: 3, Most: 8, Estimate: -1}, Typical: -1,
		Points: hubapi.PointLimit, Stored: 7, Store: 9,
	}
	if plan != want || err != nil {
		t.Errorf("%+v, %v", plan, err)
	}
	use, err := c.JobsUsage(t.Context())
	if err != nil || use.Stored != 7 || use.Inputs != 2 || use.GPUHours != 1.5 || use.Window != "1h0m0s" || len(use.Kept) != 1 || use.Kept[0].Expires.Unix() != 9 {
		t.Errorf("%+v, %v", use, err)
	}
}
