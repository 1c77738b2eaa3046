package spawner

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestWhyOfWhatHasEnded: who asks what a job waits for that has ended reads how it did.
func TestWhyOfWhatHasEnded(t *testing.T) {
	for name, tc := range map[string]struct {
		outcome *Outcome
		want    Explanation
	}{
		"done":      {&Outcome{}, Explanation{Summary: "it does not wait: it is done"}},
		"cancelled": {&Outcome{Canceled: true, Failed: true, Reason: "stopped by its owner"}, Explanation{Summary: "it does not wait: it was cancelled"}},
		"failed": {
			&Outcome{Failed: true, Reason: "out of memory", Remedy: "ask for more memory: --mem"},
			Explanation{Summary: "it does not wait: it has failed: out of memory", Remedy: "ask for more memory: --mem"},
		},
	} {
		var m Manager
		if diff := cmp.Diff(tc.want, m.explain(Workload{Kind: Job, Phase: Stopped, Outcome: tc.outcome})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
