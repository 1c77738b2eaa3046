package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"slipway/hubapi"
	"slipway/internal/hubtest"
)

// simulatedGPUs are two profiles and two GPUs that do not exist, one of them cut as needed.
const simulatedGPUs = `
  - {name: part, display_name: A part of a GPU, kind: lab, images: [notebook], cpus: 0.5, memory: 512M, gpu: 1g.18gb}
  - {name: all, display_name: A GPU, kind: lab, images: [notebook], cpus: 0.5, memory: 512M, gpu: whole, gpu_isolation: hardware}
gpu:
  driver: simulated
  simulated: [H200/mig, H200]
  devices: [{match: 0, mode: mig}, {match: "*", mode: whole}]
`

// TestSimulatedGPUs goes the whole way with slices that do not exist: the Hub asks for a profile, the ledger leases a
// place, the fleet cuts it out, the session is told of it, and a service that was killed knows all of it again.
func TestSimulatedGPUs(t *testing.T) {
	t.Parallel()
	s := newHubSite(t, hubOptions{major: 6, spawner: hubtest.Slipway, service: simulatedGPUs})
	alice := s.start("alice", "", map[string]any{"profile": "part"})
	s.start("bob", "", map[string]any{"profile": "all"})
	if got, _ := alice["gpu"].(string); got != "1g.18gb of NVIDIA H200 (simulated)" {
		t.Errorf("alice's app was told of %q", got)
	}
	s.startOnly("carol", "", map[string]any{"profile": "all"})
	s.phaseOf("carol", "pending")
	for range 2 {
		all := s.gpus(hubtest.Admin)
		if !all.Simulated || len(all.GPUs) != 2 || s.holders(all) != "alice 1g.18gb, bob whole" {
			t.Errorf("there is %+v, held: %s", all.Offers, s.holders(all))
		}
		if free := s.free(all); free["whole"] != 0 || free["1g.18gb"] != 6 {
			t.Errorf("free: %v", free)
		}
		s.kill()
		s.serve()
	}
	if seen := s.holders(s.gpus("carol")); strings.Contains(seen, "alice") || strings.Contains(seen, "bob") {
		t.Errorf("carol sees %s", seen)
	}
	s.stop("bob", "")
	s.answers("carol", "")
	s.stop("alice", "")
	again := s.start("alice", "", map[string]any{"profile": "small"})
	if again["gpu"] != nil {
		t.Errorf("without a slice her app is told of %v", again["gpu"])
	}
	if all := s.gpus(hubtest.Admin); s.holders(all) != "carol whole" || s.free(all)["1g.18gb"] != 7 {
		t.Errorf("in the end: %s, free: %v", s.holders(all), s.free(all))
	}
}

// TestGPUOutOfUse: an administrator drains a GPU, nothing starts on it whatever becomes of the service, and when it is
// put back who has waited for it gets it.
func TestGPUOutOfUse(t *testing.T) {
	t.Parallel()
	s := newHubSite(t, hubOptions{major: 6, spawner: hubtest.Slipway, service: simulatedGPUs})
	whole := s.gpus(hubtest.Admin).GPUs[1].UUID
	for _, what := range []string{"drain", "resume"} {
		if r := s.as("carol", http.MethodPost, "/gpus/1/"+what, hubapi.DrainRequest{Why: "mine"}); r.status != http.StatusForbidden {
			t.Errorf("carol may %s: %d %s", what, r.status, r.body)
		}
	}
	if r := s.as(hubtest.Admin, http.MethodPost, "/gpus/"+whole[:len(whole)-2]+"/drain", hubapi.DrainRequest{Why: "a loud fan"}); r.status != http.StatusOK {
		t.Fatalf("drain: %d %s", r.status, r.body)
	}
	s.startOnly("carol", "", map[string]any{"profile": "all"})
	for range 2 {
		s.phaseOf("carol", "pending")
		g, seen := s.gpus(hubtest.Admin).GPUs[1], s.gpus("carol").GPUs[1]
		if g.Condition != "drained" || !strings.Contains(g.Why, "a loud fan") || !strings.Contains(g.Why, hubtest.Admin) || seen.Condition != "drained" || strings.Contains(seen.Why, "fan") {
			t.Errorf("it is %s: %q; carol reads %q", g.Condition, g.Why, seen.Why)
		}
		s.kill()
		s.serve()
	}
	if r := s.as(hubtest.Admin, http.MethodPost, "/gpus/1/resume", nil); r.status != http.StatusOK || !strings.Contains(string(r.body), `"remark":""`) {
		t.Fatalf("resume: %d %s", r.status, r.body)
	}
	s.answers("carol", "")
}

// gpus returns what a user is shown of the GPUs.
func (s *hubSite) gpus(user string) hubapi.GPUs {
	s.t.Helper()
	var all hubapi.GPUs
	r := s.as(user, http.MethodGet, "/gpus", nil)
	if err := json.Unmarshal(r.body, &all); err != nil {
		s.t.Fatalf("list the GPUs: %d %s", r.status, r.body)
	}
	return all
}

// holders says who has what, as far as it is shown.
func (s *hubSite) holders(all hubapi.GPUs) string {
	var words []string
	for _, g := range all.GPUs {
		for _, slice := range g.Slices {
			if slice.State == "held" {
				words = append(words, strings.TrimSpace(slice.User+" "+slice.Name))
			}
		}
	}
	return strings.Join(words, ", ")
}

func (s *hubSite) free(all hubapi.GPUs) map[string]int {
	free := map[string]int{}
	for _, o := range all.Offers {
		free[o.Name] = o.Free
	}
	return free
}
