package server

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/hubapi"
	"slipway/internal/errs"
	"slipway/spawner"
)

func TestScanPages(t *testing.T) {
	engine := aScan()
	for n := range 2 * 100 {
		w := point(5+n, spawner.Stopped, &spawner.Outcome{})
		engine.work[w.ID] = w
	}
	h := startPages(t, engine, nil)
	p := h.visitor(t, "alice")
	for path, want := range map[string]struct {
		status int
		words  []string
		rows   int
	}{
		"":                                     {200, []string{"train", "2 waiting, 1 running, 201 done, 1 failed", "First failure: out of memory", "j-alone"}, 4},
		"scans/scan-1":                         {200, []string{"2 waiting, 1 running, 201 done, 1 failed", "1 to 25 of 205", "<td data-label=\"k\">24</td>"}, 26},
		"scans/scan-1?leaf=4":                  {200, []string{"76 to 100 of 205", "<td data-label=\"k\">99</td>"}, 26},
		"jobs/j-3":                             {200, []string{"out of memory", `href="/base/services/slipway/jobs/j-3/retry"`, `href="/base/services/slipway/jobs/j-3/files/out%20put.bin">out put.bin</a>`, "5 B"}, 2},
		"scans/scan-1?leaf=9":                  {200, []string{"201 to 205 of 205"}, 6},
		"scans/scan-1?leaf=77":                 {200, []string{"201 to 205 of 205"}, 6},
		"scans/scan-1?state=failed":            {200, []string{"1 to 1 of 1", "out of memory", `href="/base/services/slipway/jobs/j-3/files/out%20put.bin" aria-label="out put.bin of point 3, 5 B"`}, 2},
		"scans/scan-1?state=running":           {200, []string{"Each point runs this", "print(&#39;of alice&#39;)"}, 2},
		"help":                                 {200, []string{"%%grid --name first", `href="/base/services/slipway/help"`}, 0},
		"scans/scan-1?state=canceled":          {200, []string{"No points are canceled now."}, 0},
		"scans/scan-1?state=odd":               {422, []string{"running, done, failed or canceled"}, 0},
		"scans/scan-1?leaf=x":                  {422, nil, 0},
		"scans/scan-1/cancel":                  {200, []string{"Cancel train?", "This cancels 2 points that wait and 1 point that runs."}, 0},
		"scans/scan-1/explode":                 {404, nil, 0},
		"scans/scan-2":                         {404, nil, 0},
		"scans/scan-1/why":                     {200, []string{"no slot has j-0", "Cpus &gt;= 2"}, 2},
		"jobs/j-0":                             {200, []string{`href="/base/services/slipway/scans/scan-1"`, "<code>k=0</code>", "Queued at htcondor: no slot", "Why does it wait?"}, 0},
		"jobs/j-0/why":                         {200, []string{"no slot has j-0", `href="/base/services/slipway/jobs/j-0"`}, 2},
		"scans/%3Cimg%20src=x%3E":              {404, nil, 0},
		"scans/scan-1/%3Cimg%20src=x%3E":       {404, nil, 0},
		"scans/scan-1?state=%3Cimg%20src=x%3E": {422, nil, 0},
	} {
		r := p.get(prefix + path)
		body := r.Body.String()
		if r.Code != want.status || len(elements(t, body, "tr")) != want.rows || len(elements(t, body, "img")) > 0 {
			t.Errorf("%s: %d, %d rows: %s", path, r.Code, len(elements(t, body, "tr")), body)
		}
		for _, words := range want.words {
			if !strings.Contains(body, words) {
				t.Errorf("%s: no %q in %s", path, words, body)
			}
		}
	}
}

// TestFilesAreSaved: what a job has left is sent for saving, never as a page, to who may have it.
func TestFilesAreSaved(t *testing.T) {
	engine := aScan()
	engine.log = "<script>hello</script>\n"
	h := startPages(t, engine, nil)
	p := h.visitor(t, "alice")
	for path, want := range map[string]struct{ body, disposition string }{
		"jobs/j-3/files/out%20put.bin": {"hello", `attachment; filename="out put.bin"`},
		"jobs/j-3/log":                 {engine.log, "attachment; filename=j-3.log"},
	} {
		r := p.get(prefix + path)
		if r.Code != 200 || r.Body.String() != want.body || r.Header().Get("Content-Disposition") != want.disposition || r.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %v %s", path, r.Code, r.Header(), r.Body)
		}
		if r := h.visitor(t, "carol").get(prefix + path); r.Code/100 != 4 || strings.Contains(r.Body.String(), want.body) || r.Header().Get("Content-Disposition") != "" {
			t.Errorf("%s to another: %d %s", path, r.Code, r.Body)
		}
	}
	if r := p.get(prefix + "jobs/j-3/files/other"); r.Code != 404 || r.Header().Get("Content-Disposition") != "" {
		t.Errorf("a file that is not there: %d %v", r.Code, r.Header())
	}
}

func TestScanForms(t *testing.T) {
	for path, want := range map[string]struct {
		status int
		to     string // or what the page says
		acted  []string
	}{
		"jobs/j-4/hold":        {303, "jobs/j-4", []string{"hold j-4"}},
		"jobs/j-1/requeue":     {303, "jobs/j-1", []string{"requeue j-1"}},
		"jobs/j-1/hold":        {409, "Back to the job", []string{"hold j-1"}},
		"jobs/j-4/release":     {409, "Back to the job", []string{"release j-4"}},
		"jobs/j-bobs/requeue":  {404, "", nil},
		"scans/scan-1/hold":    {409, "It was done to 1 points, and could not be done to 2: job j-0 is starting", []string{"hold j-0", "hold j-1", "hold j-4"}},
		"scans/scan-1/release": {303, "scans/scan-1", []string{"release j-0", "release j-1", "release j-4"}},
		"scans/scan-1/requeue": {303, "scans/scan-1", []string{"requeue j-1"}},
		"jobs/j-3/retry":       {303, "jobs/j-3", []string{"retry j-3"}},
		"jobs/j-1/retry":       {409, "Back to the job", []string{"retry j-1"}},
		"jobs/j-bobs/retry":    {404, "", nil},
		"scans/scan-1/retry":   {303, "scans/scan-1", []string{"retry j-3"}},
		"scans/scan-1/cancel":  {303, "scans/scan-1", nil},
		"scans/scan-1/discard": {303, "scans/scan-1", nil},
		"scans/scan-2/cancel":  {404, "", nil},
	} {
		h := startPages(t, aScan(), nil)
		p := h.visitor(t, "alice")
		token := formToken(t, p.get(prefix).Body.String())
		if r := p.do("POST", prefix+path, url.Values{}); r.Code != http.StatusForbidden || len(h.engine.acted) > 0 {
			t.Errorf("%s without a token: %d", path, r.Code)
		}
		r := p.do("POST", prefix+path, url.Values{"token": {token}})
		where := r.Header().Get("Location")
		if r.Code != want.status || r.Code == http.StatusSeeOther && where != prefix+want.to || r.Code == http.StatusConflict && !strings.Contains(r.Body.String(), want.to) {
			t.Errorf("%s: %d %s %s", path, r.Code, where, r.Body)
		}
		if diff := cmp.Diff(want.acted, h.engine.acted); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
}

// mutePool answers once, and never again.
type mutePool struct {
	fakePool
	asked int
}

func (m *mutePool) GPUs(ctx context.Context, since time.Time) (hubapi.PoolGPUs, error) {
	if m.asked++; m.asked > 1 {
		return hubapi.PoolGPUs{}, errs.New(errs.Unavailable, "the collector is away").With("try again later")
	}
	return hubapi.PoolGPUs{Taken: time.Unix(7200, 0), Machines: 3, Kinds: []hubapi.PoolGPU{{Model: "NVIDIA H200", Total: 2, Free: 2}}}, nil
}

func TestPoolPage(t *testing.T) {
	h := startPages(t, newFake(), func(c *Config) { c.Pool = &mutePool{} })
	p := h.visitor(t, "alice")
	if page := p.get(prefix + "gpus/pool").Body.String(); !strings.Contains(page, "NVIDIA H200") || strings.Contains(page, "does not answer") {
		t.Error(page)
	}
	if page := p.get(prefix + "gpus/pool").Body.String(); !strings.Contains(page, "NVIDIA H200") || !strings.Contains(page, "The collector is away. Try again later.") {
		t.Errorf("what was seen is forgotten: %s", page)
	}
	h = startPages(t, newFake(), nil)
	if r := h.visitor(t, "alice").get(prefix + "gpus/pool"); r.Code == http.StatusOK || !strings.Contains(r.Body.String(), "no HTCondor pool") {
		t.Errorf("%d %s", r.Code, r.Body)
	}
}
