package inspect

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway/spawner"
)

// TestWhyOfWhatHasEnded: who asks what a job waits for that has ended reads how it did.
func TestWhyOfWhatHasEnded(t *testing.T) {
	for name, tc := range map[string]struct {
		outcome *spawner.Outcome
		want    spawner.Explanation
	}{
		"done":     {&spawner.Outcome{}, spawner.Explanation{Summary: "it does not wait: it is done"}},
		"canceled": {&spawner.Outcome{Canceled: true, Failed: true, Reason: "stopped by its owner"}, spawner.Explanation{Summary: "it does not wait: it was canceled"}},
		"failed": {
			&spawner.Outcome{Failed: true, Reason: "out of memory", Remedy: "ask for more memory: --mem"},
			spawner.Explanation{Summary: "it does not wait: it has failed: out of memory", Remedy: "ask for more memory: --mem"},
		},
	} {
		var i Inspector
		if diff := cmp.Diff(tc.want, i.explain(spawner.Workload{Kind: spawner.Job, Phase: spawner.Stopped, Outcome: tc.outcome})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
