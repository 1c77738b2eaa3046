package e2e

import (
	"net/http"
	"os/exec"
	"strings"
	"testing"
)

// TestEndedWhileFreezing ends a session in the middle of a freeze, by each of the ways that there are: either there is
// a whole environment, or it is said why there is none; nothing is left, and nothing stays paused.
func TestEndedWhileFreezing(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for name, end := range map[string]func(user, id string){
		"stopped":   func(user, id string) { s.call(user, http.MethodPost, "/api/v1/sessions/"+id+"/stop", map[string]any{}) },
		"discarded": func(user, id string) { s.call(user, http.MethodDelete, "/api/v1/sessions/"+id, nil) },
		"killed":    func(_, id string) { _ = exec.Command("docker", "kill", "slipway-"+id).Run() },
		"removed":   func(_, id string) { _ = exec.Command("docker", "rm", "-f", "slipway-"+id).Run() },
	} {
		t.Run(name, func(t *testing.T) {
			id := s.session(name, "one")
			s.converted(1)
			s.in(name, "echo mine > /opt/env/mine && head -c 60000000 /dev/urandom > /opt/env/big")
			type result struct {
				environment map[string]any
				failure     string
			}
			done := make(chan result, 1)
			go func() {
				environment, failure := s.freeze(name, id)
				done <- result{environment, failure}
			}()
			s.eventually("the freeze is at work", func() bool { return len(s.left("work", "freeze-*")) > 0 || len(done) > 0 })
			end(name, id)
			got := <-done
			t.Logf("%v %s", got.environment["digest"], got.failure)
			if got.environment == nil && (got.failure == "" || strings.Contains(got.failure, `"internal"`) || strings.Contains(got.failure, "broke off")) {
				t.Errorf("nobody is told what to do: %s", got.failure)
			}
			if got.environment != nil {
				s.verified(name, got.environment["digest"].(string))
			}
			if left := s.left("work", "*"); len(left) > 0 {
				t.Errorf("left %q", left)
			}
			s.eventually("it has ended", func() bool { state := s.state(id); return state != "paused" && state != "running" })
			if name == "discarded" {
				s.eventually("the container is gone", func() bool { return containers(t, id) == 0 })
				return
			}
			s.eventually("it has stopped", func() bool { return s.phase("root", "sessions", id) == "stopped" })
			if again := s.session(name, "two"); again != id {
				t.Errorf("started again as %s, not %s", again, id)
			}
			if mine := s.in(name, "cat /opt/env/mine || echo none"); (mine == "mine") == (name == "removed") {
				t.Errorf("the change is %q", mine)
			}
			s.call(name, http.MethodDelete, "/api/v1/sessions/"+id, nil)
		})
	}
}
