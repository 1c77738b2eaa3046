package cli

import (
	"strings"
	"testing"
	"time"

	"slipway/images"
)

// TestStepsOfAnIdleSession: what does not run neither goes on nor stands still.
func TestStepsOfAnIdleSession(t *testing.T) {
	for stage, want := range map[images.Stage]string{
		images.Reading: "the session goes on; then it will stand still for about 3 s", images.Settling: "the session stands still",
	} {
		p := images.Progress{Stage: stage, Pause: 3 * time.Second, Changed: 7}
		if got := wireProgress(p, false).Message; !strings.Contains(got, want) {
			t.Errorf("running, %s: %q", stage, got)
		}
		if got := wireProgress(p, true).Message; got != "storing the changes" {
			t.Errorf("idle, %s: %q", stage, got)
		}
	}
}
