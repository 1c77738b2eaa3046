package e2e

import (
	"os"
	"testing"
	"time"
)

// TestHTCondorPaused: a session whose worker HTCondor had lost touch with for SLIPWAY_E2E_PAUSE (a minute at least:
// only then HTCondor notices), and found again, keeps what was changed in it. It runs only where that is set, for it
// takes its time.
func TestHTCondorPaused(t *testing.T) {
	text := os.Getenv("SLIPWAY_E2E_PAUSE")
	if text == "" {
		return
	}
	span, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("SLIPWAY_E2E_PAUSE: %v", err)
	}
	t.Setenv("SLIPWAY_E2E_PARTITION", "10m") // the lease is no shorter
	s := newFarSite(t)
	id := s.session("alice", "one")
	s.in("alice", "echo mine > /opt/env/mine")
	s.pool.Pause(t, "node1")
	<-time.After(span)
	s.pool.Resume(t, "node1")
	<-time.After(10 * time.Second)
	s.stop(id)
	s.session("alice", "two")
	if got := s.in("alice", "cat /opt/env/mine"); got != "mine" {
		t.Errorf("of what was kept there is %q", got)
	}
	if n := s.submissions(id); n != 2 {
		t.Errorf("it was submitted %d times", n)
	}
}
