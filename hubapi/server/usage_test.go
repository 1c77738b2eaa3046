package server

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"slipway/hubapi"
	"slipway/internal/errs"
	"slipway/spawner"
)

// fakeMeter has measured the same of everything.
type fakeMeter struct{}

func (fakeMeter) point() hubapi.UsagePoint {
	cpu, memory := 1.5, int64(3<<29)
	return hubapi.UsagePoint{At: time.Now().Add(-time.Minute).UTC(), Seconds: 30, CPU: &cpu, Memory: &memory}
}

func (f fakeMeter) Of(spawner.ID) []hubapi.UsagePoint {
	return []hubapi.UsagePoint{f.point(), f.point()}
}

func (f fakeMeter) Now(spawner.ID) hubapi.UsagePoint { return f.point() }

func (fakeMeter) Queue() []hubapi.QueuePoint {
	return []hubapi.QueuePoint{{At: time.Now().Add(-time.Hour), Seconds: 600, Waiting: 3, Jobs: 2, Wait: 60}}
}

func (fakeMeter) Disk(hub string) map[spawner.User][]hubapi.DiskPoint {
	one := []hubapi.DiskPoint{{At: time.Now().Add(-time.Hour), Bytes: 5e9}}
	return map[spawner.User][]hubapi.DiskPoint{"bob": one, spawner.User("of " + hub): {{At: time.Now(), Bytes: 6e9}}}
}

func (fakeMeter) GPUHours(string, time.Time) []hubapi.GroupHours {
	return []hubapi.GroupHours{{At: time.Now().Truncate(time.Hour), Group: "higgs", Hours: .5}}
}

// measured is a site at which alice has a session and a job that run, and bob a scan.
func measured(c *Config) { c.Usage = fakeMeter{} }

func scanOfBob() (all []spawner.Workload) {
	for i, phase := range []spawner.Phase{spawner.Stopped, spawner.Stopped, spawner.Running} {
		w := job(spawner.ID("j-point"+string(rune('0'+i))), "bob")
		w.Scan, w.Point, w.Phase, w.Created = "scan-bob", i, phase, time.Now().Add(-time.Hour)
		if phase == spawner.Stopped {
			w.Outcome = &spawner.Outcome{At: time.Now().Add(-time.Minute), Failed: i == 0}
		}
		all = append(all, w)
	}
	return all
}

// usage asks for something as a user.
func (h *harness) usage(t *testing.T, user, path string) (status int, kind, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.front.URL+hubapi.Base+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "token "+user+"-token")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("Content-Type"), string(text)
}

func TestUsage(t *testing.T) {
	engine := newFake(append(scanOfBob(), lab("s-alice", "alice", "/user/alice/"), job("j-alice", "alice"))...)
	h := start(t, engine, measured)
	for _, c := range []struct {
		user, path, says string
		status           int
	}{
		{"alice", "/sessions/s-alice/usage", `"cpu":1.5`, 200},
		{"alice", "/jobs/j-alice/usage", `"memory":1610612736`, 200},
		{"alice", "/sessions/s-alice/usage?chart=cpu", `aria-label="CPU: from 1.5 to 1.5, last 1.5, of at most 1"`, 200},
		{"root", "/jobs/j-alice/usage?chart=memory", "1.5 GiB", 200},
		{"alice", "/jobs/j-alice/usage?chart=gpu-memory", "nothing was measured", 200},
		{"alice", "/jobs/j-alice/usage?chart=disk", "one of [cpu memory gpu gpu-memory]", 422},
		{"bob", "/sessions/s-alice/usage", "not_found", 404},
		{"alice", "/usage", `"id":"j-alice"`, 200},
		{"alice", "/usage?all=yes", "true or false", 422},
		{"alice", "/usage?all=true", "for administrators", 403},
		{"root", "/usage?all=true", `"id":"j-alice"`, 200},
		{"bob", "/usage/site", "for administrators", 403},
		{"root", "/usage/site", `"group":"higgs"`, 200},
		{"root", "/usage/site?chart=queue", "waiting: from 3 to 3", 200},
		{"root", "/usage/site?chart=wait", "1 min", 200},
		{"root", "/usage/site?chart=disk", "of main", 200},
		{"root", "/usage/site?chart=gpus", "higgs", 200},
		{"bob", "/scans/scan-bob/progress", `"points":3`, 200},
		{"bob", "/scans/scan-bob/progress?chart=progress", "failed: last 1; done: last 1", 200},
		{"alice", "/scans/scan-bob/progress", "not_found", 404},
	} {
		status, kind, body := h.usage(t, c.user, c.path)
		if status != c.status || !strings.Contains(body, c.says) {
			t.Errorf("%s asks for %s: %d, want %d with %s: %s", c.user, c.path, status, c.status, c.says, body)
		}
		want := "application/json"
		if strings.Contains(c.path, "chart=") && status == 200 {
			want = "image/svg+xml"
		}
		if kind != want {
			t.Errorf("%s is %s", c.path, kind)
		}
	}
	if _, _, body := h.usage(t, "root", "/usage"); strings.Contains(body, "alice") {
		t.Errorf("an administrator's own: %s", body)
	}
	var progress hubapi.ScanProgress
	_, _, body := h.usage(t, "bob", "/scans/scan-bob/progress")
	if err := json.Unmarshal([]byte(body), &progress); err != nil || len(progress.Steps) != 2 || progress.Steps[1].Failed != 1 ||
		progress.Steps[1].Done != 1 {
		t.Errorf("the scan: %+v, %v", progress, err)
	}
}

func TestUsageWhereNothingIsMeasured(t *testing.T) {
	h := start(t, newFake(lab("s-alice", "alice", "/user/alice/")), nil)
	for path, want := range map[string]string{
		"/sessions/s-alice/usage": `"points":[]`, "/usage": `"cpu":null`, "/usage/site": `"queue":[]`,
		"/usage/site?chart=queue": "nothing was measured", "/sessions/s-alice/usage?chart=cpu": "nothing was measured",
	} {
		user := "alice"
		if strings.Contains(path, "site") {
			user = "root"
		}
		if status, _, body := h.usage(t, user, path); status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
}

// TestAnAdministratorsSessionSeesNoSite: what runs in it may be anybody's program.
func TestAnAdministratorsSessionSeesNoSite(t *testing.T) {
	h := start(t, newFake(lab("s-root", "root", "/user/root/")), measured)
	inside := h.inside(t, "s-root")
	if _, err := inside.SiteUsage(t.Context()); !errs.Is(err, errs.Forbidden) {
		t.Errorf("the site: %v", err)
	}
	if _, err := inside.Usage(t.Context(), true); !errs.Is(err, errs.Forbidden) {
		t.Errorf("everybody's: %v", err)
	}
	if list, err := inside.Usage(t.Context(), false); err != nil || len(list.Workloads) != 1 {
		t.Errorf("her own: %+v %v", list, err)
	}
}

func TestUsagePages(t *testing.T) {
	engine := newFake(append(scanOfBob(), lab("s-alice", "alice", "/base/user/alice/"), job("j-alice", "alice"))...)
	h := startPages(t, engine, measured)
	for _, c := range []struct {
		user, path string
		charts     int
		says       string
	}{
		{"alice", "usage", 0, "1.5 GiB of 2 GiB"},
		{"root", "usage", 3, "Nothing of yours runs"},
		{"root", "usage?all=1", 3, "of alice"},
		{"alice", "usage?all=1", 0, "j-alice"},
		{"alice", "sessions/s-alice", 2, "What it has used"},
		{"alice", "jobs/j-alice", 2, "What it has used"},
		{"bob", "scans/scan-bob", 1, "Points that have ended"},
	} {
		page := h.visitor(t, c.user).get(prefix + c.path)
		text := page.Body.String()
		if n := strings.Count(text, "<svg class=\"chart\""); page.Code != http.StatusOK || n != c.charts || !strings.Contains(text, c.says) {
			t.Errorf("%s at %s: %d, %d charts, want %d and %q", c.user, c.path, page.Code, n, c.charts, c.says)
		}
	}
}
