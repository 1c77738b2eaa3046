package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway/internal/testenv"
)

// TestJobsOutliveTheService kills the service at every step of jobs on this host: each has run once in the end, and
// nothing is left.
func TestJobsOutliveTheService(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	frozen, failure := s.freeze("alice", s.session("alice", "one"))
	if failure != "" {
		t.Fatal(failure)
	}
	runs := counted{s, frozen["digest"].(string)}
	s.in("alice", "mkdir -p ~/runs")
	t.Run("at each step", runs.killedAtEachStep)
	t.Run("in the middle of a scan", runs.killedInAScan)
}

// counted submits alice's jobs that count their runs, in files of her home to which they only append.
type counted struct {
	*site
	environment string
}

// ask submits a shell script that is counted under a name, which is the request's id too. Nobody may hear the answer.
func (c counted) ask(name, script string, more map[string]any) reply {
	body := map[string]any{
		"name": name, "environment": c.environment, "argv": []string{"sh", "-c", "echo run$SLIPWAY_POINT >> ~/runs/" + name + "; " + script},
		"cpus": 0.5, "memory": "128M", "request_id": name,
	}
	for k, v := range more {
		body[k] = v
	}
	return c.call("alice", http.MethodPost, "/api/v1/jobs", body)
}

// again repeats a request until it is answered, and gives the id of what it has submitted.
func (c counted) again(t *testing.T, name, script string, more map[string]any) string {
	t.Helper()
	r := c.ask(name, script, more)
	if r.status != http.StatusAccepted {
		t.Fatalf("%s: %d %s", name, r.status, r.body)
	}
	o := r.object(t)
	if id, ok := o["id"].(string); ok {
		return id
	}
	return o["jobs"].([]any)[0].(map[string]any)["scan"].(string)
}

// of returns what has run under a name, sorted by nothing but the time.
func (c counted) of(name string) []string {
	text, _ := os.ReadFile(filepath.Join(c.dir, "homes", "alice", "runs", name))
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// ranOnce waits for the end of a job, which must be done, with its file, after one run.
func (c counted) ranOnce(t *testing.T, name, id string) {
	t.Helper()
	if job := c.ended("alice", id); job["state"] != "done" {
		t.Errorf("%s: %v %v", name, job["state"], job["outcome"])
	}
	if runs := c.of(name); len(runs) != 1 || runs[0] != "run" {
		t.Errorf("%s has run as %q", name, runs)
	}
	if left := c.call("alice", http.MethodGet, "/api/v1/jobs/"+id+"/files/answer", nil); string(left.body) != "42\n" {
		t.Errorf("%s has left %d %.100q", name, left.status, left.body)
	}
}

// killedAtEachStep: the client, who may have heard nothing, repeats what she has asked, and that is the same job.
func (c counted) killedAtEachStep(t *testing.T) {
	c.reportTo(t)
	for n, step := range testenv.Some("", "a job is submitted", "to=leased", "to=starting", "to=booting", "to=running", "to=stopping") {
		name := "killed-" + step[strings.LastIndexAny(step, " =")+1:]
		go c.ask(name, jobScript, nil)
		c.killWhen(step)
		id := c.again(t, name, jobScript, nil)
		c.ranOnce(t, name, id)
		if all := c.list("alice", "jobs"); len(all) != n+1 {
			t.Errorf("%s: %d jobs after %d requests", name, len(all), n+1)
		}
	}
}

// jobScript leaves so much that the service takes a while to collect it.
const jobScript = "head -c 30000000 /dev/urandom > large; echo 42 > answer"

// killWhen kills the service in the moment when its log has these words anew, and starts it again.
func (c counted) killWhen(words string) {
	c.t.Helper()
	path := filepath.Join(c.dir, "serve.log")
	before, _ := os.Stat(path)
	for deadline := time.Now().Add(testenv.Hang); ; <-time.After(time.Millisecond) {
		log, err := os.ReadFile(path)
		if err != nil || time.Now().After(deadline) {
			c.t.Fatalf("the log never has %q: %v", words, err)
		}
		if strings.Contains(string(log[before.Size():]), words) {
			break
		}
	}
	c.kill()
	c.serve()
}

// scanned is how many points its scan has.
var scanned = testenv.Rounds(24, 60)

// killedInAScan: all points come to their end, and each has run once.
func (c counted) killedInAScan(t *testing.T) {
	c.reportTo(t)
	points := make([]map[string]any, scanned)
	for n := range points {
		points[n] = map[string]any{"parameters": map[string]string{"k": fmt.Sprint(n)}}
	}
	began := time.Now()
	id := c.again(t, "scan", "echo 42 > answer", map[string]any{"points": points})
	c.eventually("a third has run", func() bool { return len(c.of("scan")) > scanned/3 })
	t.Logf("a third after %s", time.Since(began))
	c.kill()
	c.serve()
	if again := c.again(t, "scan", "echo 42 > answer", map[string]any{"points": points}); again != id {
		t.Errorf("repeated, %s is %s", id, again)
	}
	c.eventually("all have ended", func() bool {
		states := c.states(id)
		return !strings.Contains(states, "pending") && !strings.Contains(states, "running")
	})
	c.allDone(t)
	if states := c.states(id); states != fmt.Sprintf("map[done:%d]", scanned) {
		t.Errorf("the points are %s", states)
	}
	t.Logf("all after %s", time.Since(began))
	seen := map[string]int{}
	for _, run := range c.of("scan") {
		seen[run]++
	}
	for n := range points {
		if runs := seen[fmt.Sprintf("run%d", n)]; runs != 1 {
			t.Errorf("point %d has run %d times", n, runs)
		}
	}
}

// allDone wants every job to be done, and shows what has become of others.
func (c counted) allDone(t *testing.T) {
	t.Helper()
	for _, job := range c.list("alice", "jobs") {
		if job["state"] != "done" {
			t.Errorf("%v is %v: %v\n%s", job["id"], job["state"], job["outcome"], c.call("alice", http.MethodGet, fmt.Sprintf("/api/v1/jobs/%v/events", job["id"]), nil).body)
		}
	}
}

// states returns how many points of a scan are in each, such as "map[done:3]".
func (c counted) states(scan string) string {
	return fmt.Sprint(c.call("alice", http.MethodGet, "/api/v1/scans/"+scan, nil).object(c.t)["states"])
}
