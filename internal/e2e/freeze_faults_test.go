package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway/internal/testenv"
)

// TestKilledWhileFreezing kills the service in each stage of a freeze, in the pause too: the session goes on and is not
// held still, nothing half-done is visible or left, and the next freeze works.
func TestKilledWhileFreezing(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id := s.session("alice", "one")
	for _, stage := range []string{"preparing", "reading", "settling", "indexing", "writing"} {
		t.Run(stage, func(t *testing.T) {
			if stage == "preparing" {
				s.kill()
				s.forgetBases()
				s.serve()
				s.answersAlice()
			} else {
				s.converted(1)
			}
			if !s.killIn(stage, id) {
				t.Fatalf("no freeze of ten was killed in the stage %s", stage)
			}
			s.goesOn(id)
			s.serve()
			s.answersAlice()
			if state := s.state(id); state != "running" {
				t.Errorf("the container is %s", state)
			}
			if left := s.left("work", "freeze-*"); len(left) > 0 {
				t.Errorf("left %v", left)
			}
			// What came to its end in the moment of the kill is whole.
			for _, e := range s.list("alice", "environments") {
				hex := strings.TrimPrefix(e["digest"].(string), "sha256:")
				if len(s.left("blobs", hex+".sif")) != 1 || len(s.left("documents", hex+".json")) != 1 {
					t.Errorf("a killed freeze is an environment without a file: %v", e)
				}
			}
		})
	}
	environment, failure := s.freeze("alice", id)
	if failure != "" || environment["digest"] == "" {
		t.Fatalf("the next freeze: %v %s", environment, failure)
	}
	if got := s.ended("alice", s.submit("alice", environment["digest"].(string), "wc -c < /opt/env/big", nil)); got["state"] != "done" {
		t.Errorf("a job in it: %v", got)
	}
	s.converted(1)
	if n := containers(t, id); n != 1 {
		t.Errorf("%d containers", n)
	}
	for _, pattern := range []string{"work/*", "documents/.*", "bases/.*", "blobs/.*"} {
		if left := s.left(pattern); len(left) > 0 {
			t.Errorf("left %v", left)
		}
	}
}

// goesOn waits until a session is not held still, though no service is there.
func (s *site) goesOn(id string) {
	s.t.Helper()
	began := time.Now()
	s.eventually("the session goes on without the service", func() bool { return s.state(id) == "running" })
	s.t.Logf("the session was held still for %v after the kill", time.Since(began))
}

// answersAlice waits until alice's session answers, for its agent comes back to a new service within a moment.
func (s *site) answersAlice() {
	s.t.Helper()
	s.eventually("the session answers", func() bool {
		return s.call("", http.MethodGet, "/user/alice/api", nil).status == http.StatusOK
	})
}

// killIn freezes alice's session anew until the service could be killed in the stage. A stage can be over before it is
// seen.
func (s *site) killIn(stage, id string) bool {
	for range 10 {
		s.in("alice", "head -c 80000000 /dev/urandom > /opt/env/big && mkdir -p /opt/env/many && cd /opt/env/many && seq 2000 | xargs touch")
		if s.freezing(id, stage) {
			return true
		}
		for _, e := range s.list("alice", "environments") {
			s.call("alice", http.MethodDelete, "/api/v1/environments/"+e["digest"].(string), nil)
		}
	}
	return false
}

// freezing freezes a session and kills the service as soon as the freeze is in the stage; it says whether that came to
// pass.
func (s *site) freezing(id, stage string) (killed bool) {
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	seen := make(chan bool, 2)
	go func() { seen <- s.tells(ctx, id, stage) }()
	if stage == "settling" { // too short for the stream to tell it in time
		go func() { seen <- s.paused(ctx, id) }()
	}
	if killed = <-seen; killed {
		s.kill()
	}
	return killed
}

// tells reads the stream of a freeze until it tells the stage, or ends.
func (s *site) tells(ctx context.Context, id, stage string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/api/v1/sessions/"+id+"/freeze", strings.NewReader("{}"))
	if err != nil {
		return false
	}
	req.Header.Set("Authorization", "Bearer token-of-alice")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		var p struct{ Stage string }
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if ok && json.Unmarshal([]byte(data), &p) == nil && p.Stage == stage && stage != "settling" {
			return true
		}
	}
	return false
}

// paused waits until the engine says that the session's container is paused.
func (s *site) paused(ctx context.Context, id string) bool {
	for ctx.Err() == nil {
		if s.state(id) == "paused" {
			return true
		}
	}
	return false
}

// state asks the engine itself, by its socket: its client takes longer than a pause.
func (s *site) state(id string) string {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", "/var/run/docker.sock")
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	resp, err := client.Get("http://docker/containers/slipway-" + id + "/json")
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	var facts struct{ State struct{ Status string } }
	if err := json.NewDecoder(resp.Body).Decode(&facts); err != nil {
		return err.Error()
	}
	return facts.State.Status
}

// left lists what of a pattern lies in the library of environments.
func (s *site) left(pattern ...string) []string {
	found, _ := filepath.Glob(filepath.Join(append([]string{s.dir, "data", "environments"}, pattern...)...))
	return found
}

// forgetBases makes the service convert its images anew.
func (s *site) forgetBases() {
	for _, path := range s.left("bases", "*") {
		if err := os.Remove(path); err != nil {
			s.t.Fatal(err)
		}
	}
}

// converted waits until so many images are, and none is being converted.
func (s *site) converted(images int) {
	s.t.Helper()
	testenv.UntilUnlessDead(s.t, "the images are converted", 3*testenv.Hang, s.dead, s.log.Name(), func() bool {
		return len(s.left("bases", "*.sqfs")) >= images && len(s.left("work", "base-*")) == 0
	})
}
