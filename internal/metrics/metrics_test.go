package metrics

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"slipway/spawner"
)

func scrape(m *Metrics) string {
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Body.String()
}

func TestMetrics(t *testing.T) {
	took := []time.Duration{300 * time.Millisecond, 3 * time.Second}
	m := New(Config{Version: "1.2.3", Parts: func() map[string]bool {
		return map[string]bool{"docker": true, "hub:main": false}
	}, Kernels: func() Kernels { return Kernels{Sockets: 4, Heard: 5, Told: 6, HeardBytes: 7, ToldBytes: 8} }, Links: func() int { return 3 }, Stats: func() spawner.Stats {
		s := spawner.Stats{
			StartsFailed: map[spawner.Cause]int{spawner.CauseExit: 4},
			Workloads:    map[spawner.Kind]map[spawner.Phase]int{spawner.Lab: {spawner.Running: 2}},
			Capacity:     map[string]spawner.Capacity{"docker": {CPUs: 8, Memory: 1024}}, Use: map[string]spawner.Capacity{"docker": {CPUs: 1.5, Count: 2}},
			Kernels:       map[string]map[spawner.Phase]int{"python-gpu": {spawner.Pending: 2, spawner.Running: 1}},
			KernelsFailed: map[string]map[spawner.Cause]int{"python-gpu": {spawner.CauseStart: 3}}, KernelsDropped: map[string]int64{"python-gpu": 9},
			KernelRestarts: map[string]map[spawner.Cause]int{"python-gpu": {spawner.CauseMemory: 6}},
			Standbys:       map[string]spawner.Standbys{"python-gpu": {Ready: 1, Lacking: 2}},
			KernelTook:     took, StartTook: took, Orphans: 1, Refused: map[string]int{"storage": 2},
			Jobs: map[string]map[spawner.Phase]int{"local": {spawner.Pending: 7, spawner.Running: 1, spawner.Stopping: 1}},
		}
		took = nil
		return s
	}})
	m.Request("GET", "/api/v1/me", 200, time.Millisecond)
	m.Request("BREW", "session proxy", 404, time.Millisecond)
	m.Freeze("internal", true, time.Second)
	m.Freeze("no_space", false, time.Second)
	scrape(m) // the starts of a scrape stay counted in the next
	got := scrape(m)
	for _, want := range []string{
		`slipway_build_info{version="1.2.3"} 1`, `slipway_part_up{part="docker"} 1`, `slipway_part_up{part="hub:main"} 0`,
		`slipway_starts_failed_total{cause="exit"} 4`,
		`slipway_workloads{kind="lab",phase="running"} 2`, `slipway_capacity{backend="docker",resource="cpus"} 8`,
		`slipway_leased{backend="docker",resource="cpus"} 1.5`, `slipway_leased{backend="docker",resource="workloads"} 2`, `slipway_orphans 1`, `slipway_jobs_refused_total{reason="storage"} 2`,
		`slipway_jobs{backend="local",state="waiting"} 7`, `slipway_jobs{backend="local",state="running"} 2`, `slipway_links 3`,
		`slipway_start_seconds_count 2`, `slipway_kernel_start_seconds_count 2`, `slipway_kernels{phase="pending",spec="python-gpu"} 2`, `slipway_kernel_websockets 4`,
		`slipway_kernels_failed_total{cause="start",spec="python-gpu"} 3`, `slipway_kernel_dropped_messages_total{spec="python-gpu"} 9`, `slipway_kernel_restarts_total{cause="memory",spec="python-gpu"} 6`, `slipway_kernel_standbys_lacking{spec="python-gpu"} 2`,
		`slipway_kernel_messages_total{direction="read"} 5`, `slipway_kernel_bytes_total{direction="written"} 8`, `slipway_http_request_seconds_count{method="GET",route="/api/v1/me",status="200"} 1`,
		`slipway_http_request_seconds_count{method="other",route="session proxy",status="404"} 1`,
		`slipway_freeze_seconds_count{result="ok"} 1`, `slipway_freeze_seconds_count{result="no_space"} 1`, "go_goroutines",
	} {
		if !strings.Contains(got, want+"\n") && !(want == "go_goroutines" && strings.Contains(got, want)) {
			t.Errorf("%q is missing", want)
		}
	}
	if strings.Contains(got, `slipway_capacity{backend="docker",resource="workloads"}`) {
		t.Error("a limit that does not exist is shown")
	}
}

func TestNoMetrics(t *testing.T) {
	var m *Metrics
	m.Request("GET", "/", 200, 0)
	m.Freeze("", true, 0)
	if !strings.Contains(scrape(m), "404") {
		t.Error("a page is shown")
	}
}
