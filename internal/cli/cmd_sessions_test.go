package cli

import (
	"strings"
	"testing"
	"time"

	"slipway/hubapi"
)

// TestSessionRemark tells the kept sessions of one server apart.
func TestSessionRemark(t *testing.T) {
	up := time.Unix(1, 0)
	for _, c := range []struct{ phase, image, environment, want string }{
		{"stopped", "slipway/notebook:1", "", "changes are kept, over slipway/notebook:1"},
		{"stopped", "slipway/notebook:1", "sha256:9f86d081884c7d659a2feaa0c55ad015", "changes are kept, over 9f86d081884c"},
		{"stopped", "", "", "changes are kept"},
		{"running", "slipway/notebook:1", "", ""},
	} {
		s := hubapi.Session{Workload: hubapi.Workload{Kind: "lab", Phase: c.phase, Up: &up}, Image: c.image, Environment: c.environment}
		if got := sessionRemark(s); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// TestRemarkOfAnEnd: why a session ended, and what has become of its changes.
func TestRemarkOfAnEnd(t *testing.T) {
	up := time.Unix(1, 0)
	for want, o := range map[string]hubapi.Outcome{
		"stopped by Slipway: not opened by anybody for 20 min; changes are kept": {Expired: true, Reason: "stopped by Slipway: not opened by anybody for 20 min"},
		"stopped by Slipway: idle; it has not come back":                         {Expired: true, Failed: true, Reason: "stopped by Slipway: idle; it has not come back"},
		"changes are kept": {Canceled: true, Reason: "stopped by its owner"},
	} {
		if got := remark(hubapi.Workload{Kind: "lab", Phase: "stopped", Up: &up, Outcome: &o}); got != want {
			t.Errorf("%+v: %q", o, got)
		}
		if got := remark(hubapi.Workload{Kind: "kernel", Phase: "stopped", Up: &up, Outcome: &o}); strings.Contains(got, keptWords) || strings.HasSuffix(got, "; ") {
			t.Errorf("of a kernel, which keeps nothing: %q", got)
		}
	}
}

func TestSessionShowsRemedies(t *testing.T) {
	r := hubapi.DataReport{Checks: []hubapi.DataCheck{{Check: "room", Result: hubapi.CheckFail, Finding: "full", Remedy: "remove some"}}}
	if got := dataPairs(r)[1]; got != [2]string{"data fail", "room: full -> remove some"} {
		t.Error(got)
	}
}
