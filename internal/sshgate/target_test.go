package sshgate

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway/hubapi"
	"slipway/spawner"
)

func session(id, name, profile string, phase spawner.Phase, want spawner.Want) spawner.Workload {
	return spawner.Workload{
		ID: spawner.ID(id), Kind: spawner.Lab, Owner: "alice", Hub: "main", Name: name, Phase: phase, Want: want, Spec: spawner.Spec{SessionSpec: spawner.SessionSpec{Profile: profile}},
	}
}

func TestChoose(t *testing.T) {
	running := func(id, name, profile string) spawner.Workload {
		return session(id, name, profile, spawner.Running, spawner.WantRunning)
	}
	given := func(id, name, profile string) spawner.Workload { // given up while it waited
		return session(id, name, profile, spawner.Stopped, spawner.WantStopped)
	}
	stopped := func(id, name, profile string) spawner.Workload {
		w := given(id, name, profile)
		w.Ran = true
		return w
	}
	ending := session("s-1", "mine", "small", spawner.Running, spawner.WantStopped)
	ending.Ran = true
	job := running("j-1", "gpu10", "")
	job.Kind = spawner.Job
	kernel := running("s-9", "gpu10", "gpu10")
	kernel.Kind = spawner.Kernel
	for name, tt := range map[string]struct {
		target string
		all    []spawner.Workload
		join   spawner.ID // or is started again
		start  hubapi.ServerRequest
		says   string
	}{
		"the default one":            {"", []spawner.Workload{running("s-1", "", "small"), running("s-2", "x", "small")}, "s-1", hubapi.ServerRequest{}, ""},
		"is started":                 {"", []spawner.Workload{running("s-2", "x", "small")}, "", hubapi.ServerRequest{}, ""},
		"is started again":           {"", []spawner.Workload{stopped("s-2", "", "small")}, "s-2", hubapi.ServerRequest{}, ""},
		"of a name":                  {"x", []spawner.Workload{running("s-1", "", "x"), running("s-2", "x", "small")}, "s-2", hubapi.ServerRequest{}, ""},
		"of a profile":               {"gpu10", []spawner.Workload{running("s-1", "", "gpu10"), stopped("s-2", "gpu10", "gpu10")}, "s-1", hubapi.ServerRequest{}, ""},
		"starts already":             {"gpu10", []spawner.Workload{session("s-1", "gpu10", "gpu10", spawner.Pending, spawner.WantRunning)}, "s-1", hubapi.ServerRequest{}, ""},
		"the running one":            {"gpu10", []spawner.Workload{running("s-1", "a", "gpu10"), session("s-2", "b", "gpu10", spawner.Pending, spawner.WantRunning)}, "s-1", hubapi.ServerRequest{}, ""},
		"the latest":                 {"gpu10", []spawner.Workload{running("s-1", "a", "gpu10"), running("s-2", "b", "gpu10")}, "s-2", hubapi.ServerRequest{}, ""},
		"stopped, with what it had":  {"mine", []spawner.Workload{stopped("s-1", "mine", "small")}, "s-1", hubapi.ServerRequest{Name: "mine"}, ""},
		"is being stopped":           {"mine", []spawner.Workload{ending}, "s-1", hubapi.ServerRequest{Name: "mine"}, ""},
		"given up while it waited":   {"gpu10", []spawner.Workload{given("s-1", "gpu10", "small")}, "", hubapi.ServerRequest{Name: "gpu10", Options: map[string]any{"profile": "gpu10"}}, ""},
		"the profile":                {"gpu10", []spawner.Workload{running("s-1", "", "small")}, "", hubapi.ServerRequest{Name: "gpu10", Options: map[string]any{"profile": "gpu10"}}, ""},
		"a job is no session":        {"gpu10", []spawner.Workload{job}, "", hubapi.ServerRequest{Name: "gpu10", Options: map[string]any{"profile": "gpu10"}}, ""},
		"nor is a kernel":            {"gpu10", []spawner.Workload{kernel}, "", hubapi.ServerRequest{Name: "gpu10", Options: map[string]any{"profile": "gpu10"}}, ""},
		"one that goes is none":      {"mine", []spawner.Workload{session("s-1", "mine", "small", spawner.Removing, spawner.WantGone)}, "", hubapi.ServerRequest{}, "your sessions: none; profiles: small, gpu10"},
		"nothing of the name":        {"gpu", []spawner.Workload{running("s-1", "", "small"), stopped("s-2", "mine", "small")}, "", hubapi.ServerRequest{}, "your sessions: the default one (running), mine (stopped); profiles: small, gpu10"},
		"what would fill the screen": {strings.Repeat("\x1b[2J", 40), nil, "", hubapi.ServerRequest{}, `\x1b[2J"..., and there`},
		"what fits is not cut":       {strings.Repeat("x", mostTarget), nil, "", hubapi.ServerRequest{}, `xxx", and there`},
		"not hers to use":            {"closed", []spawner.Workload{running("s-1", "", "small")}, "", hubapi.ServerRequest{}, "profile closed is not open to you: it is for members of cms: ask your administrator to be one, or choose one of small, gpu10"},
		"not hers any more":          {"mine", []spawner.Workload{stopped("s-1", "mine", "closed")}, "", hubapi.ServerRequest{}, "profile closed is not open to you"},
		"not hers, but it runs":      {"closed", []spawner.Workload{running("s-1", "", "closed")}, "s-1", hubapi.ServerRequest{}, ""},
		"not known if hers":          {"unsure", nil, "", hubapi.ServerRequest{}, "whether profile unsure is open to you is not known: the Hub does not say: try again in a moment"},
		"not known if hers any more": {"mine", []spawner.Workload{stopped("s-1", "mine", "unsure")}, "", hubapi.ServerRequest{}, "the Hub does not say"},
		"a profile in capitals":      {"GPU10", nil, "", hubapi.ServerRequest{}, `profiles: small, gpu10: did you mean "gpu10"?`},
		"a session in capitals":      {"Mine", []spawner.Workload{running("s-1", "mine", "small")}, "", hubapi.ServerRequest{}, `did you mean "mine"?`},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := choose(tt.target, tt.all, offers)
			if (err != nil) != (tt.says != "") || err != nil && (!strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "\x1b") || len(err.Error()) > 500) {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.start, p.start); d != "" {
				t.Error(d)
			}
			var got spawner.ID
			for _, w := range []*spawner.Workload{p.join, p.again} {
				if w != nil {
					got += w.ID
				}
			}
			if got != tt.join {
				t.Errorf("gets to %q, want %q", got, tt.join)
			}
		})
	}
}
