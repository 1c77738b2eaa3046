package htcondor

import (
	"testing"

	"slipway/internal/errs"
	"slipway/spawner"
)

// TestRealWithdraw: the schedd takes back what waits and leaves what runs, also where the service takes it for waiting.
func TestRealWithdraw(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.backend(t)
	large := w.launch(t)
	large.Spec.Resources.CPUs = 1000
	runs := begin(t, b, w.launch(t))
	must(t, b.Start(t.Context(), large))
	await(t, b, runs.ID, spawner.Up)
	for _, id := range []spawner.ID{large.ID, large.ID, "j-0"} {
		must(t, b.Withdraw(t.Context(), id))
		if o, err := b.Observe(t.Context(), id); err != nil || o.Existence != spawner.Absent {
			t.Errorf("%s: %+v, %v", id, o, err)
		}
	}
	if err := b.Withdraw(t.Context(), runs.ID); !errs.Is(err, errs.Conflict) {
		t.Errorf("what runs: %v", err)
	}
	must(t, w.system().Remove(t.Context(), "alice", []string{jobOf(t, w, runs.ID)}, true)) // by a look of before it ran
	jobs, err := w.system().Queue(t.Context())
	if err != nil || len(jobs) != 1 || jobs[0].ID != runs.ID || jobs[0].Seen.Existence != spawner.Up {
		t.Errorf("of what runs there is %+v, %v", jobs, err)
	}
}
