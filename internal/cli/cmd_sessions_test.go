package cli

import (
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
