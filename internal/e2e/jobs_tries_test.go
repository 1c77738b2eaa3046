package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway/internal/store"
	"slipway/internal/testenv"
)

// TestJobsTriedAndAwaited is about jobs of which others hang, and which are tried more than once: each try runs once,
// whatever becomes of the service meanwhile.
func TestJobsTriedAndAwaited(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	frozen, failure := s.freeze("alice", s.session("alice", "one"))
	if failure != "" {
		t.Fatal(failure)
	}
	c := counted{s, frozen["digest"].(string)}
	s.in("alice", "mkdir -p ~/runs")
	t.Run("by itself, until it works", c.triedByItself)
	t.Run("by its owner, and the service is killed", c.triedByItsOwner)
	t.Run("a chain", c.chain)
	t.Run("canceled", c.canceled)
	t.Run("a watcher who comes back", c.watched)
	t.Run("removed when its time is over", c.removedInTime)
	t.Run("another user's job", c.fair)
}

// triedByItself: the third try works.
func (c counted) triedByItself(t *testing.T) {
	c.reportTo(t)
	id := c.again(t, "flaky", "test $(wc -l < ~/runs/flaky) -ge 3 && echo 42 > answer", map[string]any{"retries": 5})
	job := c.ended("alice", id)
	if job["state"] != "done" || job["attempt"] != 3.0 || len(c.of("flaky")) != 3 {
		t.Errorf("a job that works at the third try: %v, try %v, runs %v", job["state"], job["attempt"], c.of("flaky"))
	}
	if tries, _ := job["attempts"].([]any); len(tries) != 2 {
		t.Errorf("its earlier tries: %v", job["attempts"])
	}
}

// triedByItsOwner: she mends what was wrong and has it tried again, at each step of which the service is killed. She
// repeats her request, for she has not heard the answer.
func (c counted) triedByItsOwner(t *testing.T) {
	c.reportTo(t)
	for _, step := range testenv.Some("to=pending", "", "to=leased", "to=starting", "to=running", "to=stopping") {
		name := "again-" + strings.TrimPrefix(step, "to=")
		id := c.again(t, name, "test -e ~/"+name+" && sleep 0.5 && echo 42 > answer", nil) // runs for long enough to be seen running
		if job := c.ended("alice", id); job["state"] != "failed" {
			t.Fatalf("%s: %v", name, job)
		}
		c.in("alice", "touch ~/"+name)
		retry := func() reply {
			return c.call("alice", http.MethodPost, "/api/v1/jobs/"+id+"/retry", map[string]any{"request_id": "retry"})
		}
		go retry()
		c.killWhen(step)
		if r := retry(); r.status != http.StatusAccepted {
			t.Errorf("%s: repeated: %d %s", name, r.status, r.body)
		}
		job := c.ended("alice", id)
		if job["state"] != "done" || job["attempt"] != 2.0 || len(c.of(name)) != 2 {
			t.Errorf("%s: %v at try %v after %d runs", name, job["state"], job["attempt"], len(c.of(name)))
		}
	}
}

// chain: what waits for a scan begins when all of it is done, and what waits for a job that fails never does, and says
// so.
func (c counted) chain(t *testing.T) {
	c.reportTo(t)
	points := []map[string]any{{"parameters": map[string]string{"k": "1"}}, {"parameters": map[string]string{"k": "2"}}}
	first := c.again(t, "first", "sleep 1", map[string]any{"points": points})
	bad := c.again(t, "bad", "exit 3", nil)
	after := c.again(t, "after", "wc -l < ~/runs/first > seen; echo 42 > answer", map[string]any{"after": []string{first}})
	never := c.again(t, "never", "true", map[string]any{"after": []string{bad, first}})
	c.ranOnce(t, "after", after)
	if seen := c.call("alice", http.MethodGet, "/api/v1/jobs/"+after+"/files/seen", nil); string(seen.body) != "2\n" {
		t.Errorf("it began when of the scan had begun: %s", seen.body)
	}
	o, _ := c.ended("alice", never)["outcome"].(map[string]any)
	if o["failed"] != true || o["cause"] != "dependency" || !strings.Contains(fmt.Sprint(o["reason"]), bad) || c.of("never")[0] != "" {
		t.Errorf("what was to wait for what has failed: %v, runs %v", o, c.of("never"))
	}
}

// canceled: what ignores signals, and what it has left in the background, ends too.
func (c counted) canceled(t *testing.T) {
	c.reportTo(t)
	id := c.again(t, "stubborn", "trap '' TERM; setsid sleep 86399 & sleep 86399", nil)
	sleepers := func() string {
		out, _ := exec.Command("pgrep", "-u", "20000", "-fx", "sleep 86399").Output()
		return string(out)
	}
	c.eventually("it sleeps", func() bool { return strings.Count(sleepers(), "\n") == 2 })
	c.call("alice", http.MethodPost, "/api/v1/jobs/"+id+"/cancel", nil)
	if job := c.ended("alice", id); job["state"] != "canceled" {
		t.Errorf("it is %v", job["state"])
	}
	if left := sleepers(); left != "" {
		t.Errorf("processes are left: %s", left)
	}
}

// watched: she who comes back with the number of the last event has all that came meanwhile, also from another service.
func (c counted) watched(t *testing.T) {
	c.reportTo(t)
	points := make([]map[string]any, 8)
	for n := range points {
		points[n] = map[string]any{"parameters": map[string]string{"k": fmt.Sprint(n)}}
	}
	scan := c.again(t, "watched", "sleep 0.5", map[string]any{"points": points})
	done := map[int]bool{}
	last, ended := c.watch(t, scan, "", func(p pointSeen) bool {
		if p.State == "done" {
			done[p.Point] = true
		}
		return len(done) < 2
	})
	if ended {
		t.Fatal("the scan was over too soon")
	}
	c.kill()
	<-time.After(time.Second) // what runs ends unseen
	c.serve()
	if _, ended = c.watch(t, scan, last, func(p pointSeen) bool {
		if p.State == "done" {
			done[p.Point] = true
		}
		return true
	}); !ended || len(done) != len(points) {
		t.Errorf("the end came: %t; done were seen %v", ended, done)
	}
}

// pointSeen is what these tests look at in the events of a scan.
type pointSeen struct {
	Point  int
	State  string
	States map[string]int
}

// watch reads the stream of a scan until it ends, or more is false. It gives the number of the last event.
func (c counted) watch(t *testing.T, scan, after string, more func(pointSeen) bool) (last string, ended bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Hang)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+"/api/v1/scans/"+scan+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer token-of-alice")
	if after != "" {
		req.Header.Set("Last-Event-ID", after)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("watch: %v %v", resp, err)
	}
	defer resp.Body.Close()
	name := ""
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		key, value, _ := strings.Cut(lines.Text(), ": ")
		switch key {
		case "id":
			last = value
		case "event":
			name = value
		case "data":
			var e pointSeen
			if err := json.Unmarshal([]byte(value), &e); err != nil {
				t.Fatalf("%s: %v", value, err)
			}
			ended = name == "scan" && e.States["pending"]+e.States["running"] == 0
			if name == "point" && !more(e) {
				return last, false
			}
		}
	}
	return last, ended
}

// fair: a job of bob's, who has had nothing yet, does not wait for the end of alice's scan.
func (c counted) fair(t *testing.T) {
	c.reportTo(t)
	c.in("alice", "slipway envs share "+c.environment+" --with public")
	points := make([]map[string]any, 20)
	for n := range points {
		points[n] = map[string]any{"parameters": map[string]string{"k": fmt.Sprint(n)}}
	}
	scan := c.again(t, "many", "sleep 0.3", map[string]any{"points": points})
	c.eventually("it has begun", func() bool { return c.of("many")[0] != "" })
	job := c.ended("bob", c.submit("bob", c.environment, "true", map[string]any{"memory": "128M"}))
	if job["state"] != "done" {
		t.Errorf("bob's job: %v %v", job["state"], job["outcome"])
	}
	if runs := len(c.of("many")); runs > len(points)/2 {
		t.Errorf("alice's points had run %d times when bob's job was done", runs)
	}
	c.call("alice", http.MethodPost, "/api/v1/scans/"+scan+"/cancel", nil)
	c.eventually("all have ended", func() bool {
		states := c.states(scan)
		return !strings.Contains(states, "pending") && !strings.Contains(states, "running")
	})
	seen := c.of("many")
	slices.Sort(seen)
	if again := slices.Compact(slices.Clone(seen)); len(again) != len(seen) {
		t.Errorf("some have run twice: %v", seen)
	}
	if _, err := os.Stat(filepath.Join(c.dir, "homes", "bob")); err != nil {
		t.Error(err)
	}
}

// removedInTime: whose job has had its time hears so at each door, and others hear nothing of it. The service would
// wait for an hour before it believes a clock in what is long ago, so its records are made to say that it has removed
// the job.
func (c counted) removedInTime(t *testing.T) {
	c.reportTo(t)
	id := c.again(t, "old", "echo 42 > answer", nil)
	job := c.ended("alice", id)
	ends, err := time.Parse(time.RFC3339, fmt.Sprint(job["expires"]))
	if left := time.Until(ends); err != nil || left < 29*24*time.Hour || left > 30*24*time.Hour {
		t.Errorf("it is kept until %v: %v", job["expires"], err)
	}
	if shown := c.in("alice", "slipway jobs show "+id); !strings.Contains(shown, ends.Format("2006-01-02")) {
		t.Errorf("it does not say until when it is kept: %s", shown)
	}
	removed := time.Now().UTC().Add(-24 * time.Hour)
	c.kill()
	c.records(func(db *store.Store) {
		grave := map[string]any{"hub": "main", "owner": "alice", "ended": removed.Add(-30 * 24 * time.Hour), "removed": removed}
		if err := errors.Join(db.Put(t.Context(), "expired", id, grave), db.Delete(t.Context(), "workloads", id), os.RemoveAll(filepath.Join(c.dir, "data", "workloads", id))); err != nil {
			t.Fatal(err)
		}
	})
	c.serve()
	words := fmt.Sprintf("job %s ended on %s and was removed on %s, 30 days after its end, as this site does", id,
		removed.Add(-30*24*time.Hour).Format("2 January 2006"), removed.Format("2 January 2006"))
	for _, path := range []string{"", "/log", "/files", "/files/answer", "/why"} {
		if r := c.call("alice", http.MethodGet, "/api/v1/jobs/"+id+path, nil); r.status != http.StatusNotFound || !strings.Contains(string(r.body), words) {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
	if r := c.call("alice", http.MethodPost, "/api/v1/jobs/"+id+"/retry", map[string]any{}); r.status != http.StatusNotFound || !strings.Contains(string(r.body), words) {
		t.Errorf("retry: %d %s", r.status, r.body)
	}
	if r := c.call("bob", http.MethodGet, "/api/v1/jobs/"+id, nil); r.status != http.StatusNotFound || strings.Contains(string(r.body), "removed") {
		t.Errorf("bob hears: %d %s", r.status, r.body)
	}
	for _, command := range []string{"show", "logs", "results", "retry", "rm"} {
		if said := c.in("alice", "slipway jobs "+command+" "+id+" 2>&1 || echo exit $?"); !strings.Contains(said, words) || !strings.Contains(said, "exit ") {
			t.Errorf("slipway jobs %s: %s", command, said)
		}
	}
}

// records opens those of a service that does not run.
func (s *site) records(use func(*store.Store)) {
	s.t.Helper()
	db, err := store.Open(s.t.Context(), filepath.Join(s.dir, "data", "records", "slipway.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		s.t.Fatal(err)
	}
	defer db.Close()
	use(db)
}
