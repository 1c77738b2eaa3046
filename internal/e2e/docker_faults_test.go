package e2e

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"slipway/internal/testenv"
)

// pause stops a container's processes. The engine's runtime gives up where they are too busy to be stopped at once, and
// lets them go on: who asked tries again, as the service does.
func pause(t testing.TB, container string) {
	t.Helper()
	testenv.Until(t, "the engine pauses "+container, testenv.Hang, func() bool {
		out, err := exec.CommandContext(t.Context(), "docker", "pause", container).CombinedOutput()
		if err != nil && !strings.Contains(string(out), "unable to freeze") {
			t.Fatalf("docker pause %s: %s, %v", container, out, err)
		}
		return err == nil
	})
}

// TestContainerFaults does to containers what Slipway did not order. The user sees what happened and what to do, and
// with her next start she goes on from her changes, unless they are gone with the container.
func TestContainerFaults(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, test := range []struct {
		name   string
		do     []string // the engine's client, before the container's name; empty: kill the first process
		reason string
		kept   bool
	}{
		{"killed", []string{"kill"}, "its container was ended outside Slipway", true},
		{"removed", []string{"rm", "-f"}, "outside Slipway", false},
		{"agent died", nil, "its container was killed from outside (signal 9)", true},
		// Both ask the agent to end first, so its own word may come before the engine's.
		{"stopped", []string{"stop", "-t", "5"}, "", true},
		{"restarted", []string{"restart", "-t", "2"}, "", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			user := strings.ReplaceAll(test.name, " ", "-")
			id := s.session(user, "one")
			s.in(user, "echo mine > /opt/env/mine")
			if test.do == nil {
				killFirst(t, "slipway-"+id)
			} else if out, err := exec.Command("docker", append(test.do, "slipway-"+id)...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			outcome := s.fell(id)
			if reason, _ := outcome["reason"].(string); !strings.Contains(reason, test.reason) || reason == "" || outcome["failed"] != true {
				t.Errorf("the outcome is %v, want %q", outcome, test.reason)
			}
			if again := s.session(user, "two"); again != id {
				t.Errorf("started again as %s, want %s", again, id)
			}
			if got := s.in(user, "cat /opt/env/mine || echo none"); (got == "mine") != test.kept {
				t.Errorf("after it the change is %q", got)
			}
			s.call(user, http.MethodDelete, "/api/v1/sessions/"+id, nil)
		})
	}
}

// killFirst ends a container's first process as the kernel does when it lacks memory.
func killFirst(t *testing.T, container string) {
	t.Helper()
	pid, err := exec.Command("docker", "inspect", "--format", "{{.State.Pid}}", container).Output()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("kill", "-9", strings.TrimSpace(string(pid))).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// fell waits until a session has stopped by itself and gives its outcome.
func (s *site) fell(id string) map[string]any {
	s.t.Helper()
	var outcome map[string]any
	s.eventually(id+" has stopped", func() bool {
		o := s.call("root", http.MethodGet, "/api/v1/sessions/"+id, nil).object(s.t)
		outcome, _ = o["outcome"].(map[string]any)
		return o["phase"] == "stopped"
	})
	return outcome
}

// TestAgentNeverComesUp: the agent's program is broken, or dies at once. What it said is shown, and when it is well
// again the same session starts.
func TestAgentNeverComesUp(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	agent := filepath.Join(s.dir, "data", "bin", "slipway")
	well, err := os.ReadFile(agent)
	if err != nil {
		t.Fatal(err)
	}
	install := func(text []byte) {
		t.Helper()
		if err := os.WriteFile(agent+".new", text, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(agent+".new", agent); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct{ program, reason, tail string }{
		"dies":    {"#!/bin/sh\necho 'I cannot go on' >&2\nexit 3\n", "its container ended with exit code 3", "I cannot go on"},
		"foreign": {"\x7fELF of another machine", "the engine cannot run Slipway's agent in it", "exec format error"},
	} {
		install([]byte(test.program))
		r := s.ask("alice", name)
		if r.status != http.StatusAccepted {
			t.Fatalf("%s: %d %s", name, r.status, r.body)
		}
		outcome := s.fell(r.object(t)["id"].(string))
		reason, _ := outcome["reason"].(string)
		tail, _ := outcome["tail"].(string)
		if !strings.Contains(reason, test.reason) || !strings.Contains(tail, test.tail) {
			t.Errorf("%s: the outcome is %v, want %q and the words %q", name, outcome, test.reason, test.tail)
		}
	}
	install(well)
	s.session("alice", "well")
	if got := s.in("alice", "echo here"); got != "here" {
		t.Errorf("well again: %q", got)
	}
}
