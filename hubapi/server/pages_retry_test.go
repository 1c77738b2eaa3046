package server

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"slipway/spawner"
	"slipway/spawner/catalog"
)

// What was not enough is suggested twice, within what a job may have; what is asked for beyond that is refused.
func TestRetryForm(t *testing.T) {
	const gib = 1 << 30
	for name, tc := range map[string]struct {
		cause        spawner.Cause
		memory       int64
		limit        time.Duration
		has          []string // on the page
		askMemory    string
		askTime      string
		status       int
		wantMemory   int64
		wantTime     time.Duration
		wantNothing  bool
		wantsMessage string
	}{
		"out of memory": {
			cause: spawner.CauseMemory, memory: 2 * gib, limit: time.Hour, has: []string{`name="memory" value="4G"`, `name="time" value="1h"`},
			askMemory: "4G", askTime: "1h", status: http.StatusSeeOther, wantMemory: 4 * gib, wantTime: time.Hour,
		},
		"out of time": {
			cause: spawner.CauseTime, memory: 2 * gib, limit: time.Hour, has: []string{`value="2G"`, `name="time" value="2h"`},
			askMemory: "2G", askTime: "2h", status: http.StatusSeeOther, wantMemory: 2 * gib, wantTime: 2 * time.Hour,
		},
		"near the limit": {
			cause: spawner.CauseMemory, memory: 6 * gib, limit: 3 * time.Hour, has: []string{`name="memory" value="8G"`, `name="time" value="3h"`},
			askMemory: "6G", askTime: "3h", status: http.StatusSeeOther, wantMemory: 6 * gib, wantTime: 3 * time.Hour,
		},
		"an exception": {
			cause: spawner.CauseExit, memory: 2 * gib, limit: time.Hour, has: []string{`name="memory" value="2G"`, `name="time" value="1h"`, "ValueError: no"},
			askMemory: "2G", askTime: "1h", status: http.StatusSeeOther, wantMemory: 2 * gib, wantTime: time.Hour,
		},
		"too much": {
			cause: spawner.CauseMemory, memory: 2 * gib, limit: time.Hour,
			askMemory: "64G", askTime: "1h", status: http.StatusUnprocessableEntity, wantMemory: 2 * gib, wantTime: time.Hour, wantNothing: true, wantsMessage: "8 GiB",
		},
	} {
		engine := aScan()
		w := engine.work["j-3"]
		w.Spec.Resources, w.Spec.TimeLimit = spawner.Resources{CPUs: 1, Memory: tc.memory}, tc.limit
		w.Outcome = &spawner.Outcome{Failed: true, ExitCode: 1, Cause: tc.cause, Reason: "ValueError: no"}
		engine.work["j-3"] = w
		h := startPages(t, engine, func(c *Config) {
			c.Jobs = catalog.JobPolicy{MaxCPUs: 4, MaxMemory: 8 * gib, MaxTime: 4 * time.Hour, DefaultTime: time.Minute, DefaultMemory: gib, DefaultCPUs: 1}
		})
		p := h.visitor(t, "alice")
		for _, path := range []string{"jobs/j-3/retry", "scans/scan-1/retry"} {
			page := p.get(prefix + path)
			for _, words := range tc.has {
				if !strings.Contains(page.Body.String(), words) {
					t.Errorf("%s: %s: no %q in %s", name, path, words, page.Body)
				}
			}
		}
		token := formToken(t, p.get(prefix).Body.String())
		r := p.do("POST", prefix+"jobs/j-3/retry", url.Values{"token": {token}, "memory": {tc.askMemory}, "time": {tc.askTime}})
		if r.Code != tc.status || !strings.Contains(r.Body.String(), tc.wantsMessage) {
			t.Errorf("%s: %d: %s", name, r.Code, r.Body)
		}
		if tc.wantNothing != (len(h.engine.acted) == 0) {
			t.Errorf("%s: %q", name, h.engine.acted)
		}
		got := h.engine.work["j-3"].Spec
		if got.Resources.Memory != tc.wantMemory || got.TimeLimit != tc.wantTime {
			t.Errorf("%s: it has %d and %s", name, got.Resources.Memory, got.TimeLimit)
		}
	}
}
