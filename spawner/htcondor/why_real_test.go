package htcondor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"slipway/spawner"
	"slipway/spawner/htcondor/commands"
	"slipway/spawner/htcondor/condortest"
	"slipway/spawner/htcondor/pool"
)

// TestRealWhy has a pool of two processors, and jobs that wait in it for each of the reasons that there are.
func TestRealWhy(t *testing.T) {
	t.Parallel()
	condor := condortest.Start(t, condortest.Options{CPUs: 2, Config: "MEMORY = 4096\nSLIM_LIMIT = 1\n"})
	w := worldOf(t, condor)
	known, err := pool.New(pool.Config{Run: commands.In(condor.Bin), Fresh: time.Millisecond, Logger: w.cfg.Logger})
	must(t, err)
	w.cfg.Pool = known
	b := w.backend(t)
	explained := func(l spawner.Launch, want ...string) {
		t.Helper()
		var e spawner.Explanation
		until(t, fmt.Sprintf("%s is explained by %q", l.ID, want), func() bool {
			e, err = b.Why(t.Context(), l.Workload)
			must(t, err)
			t.Logf("%s\n  remedy: %s", e.Summary, e.Remedy)
			for _, part := range want {
				if !strings.Contains(e.Summary+"\n"+e.Remedy, part) {
					return false
				}
			}
			return true
		})
	}
	filler := w.launch(t)
	filler.Spec.Resources.CPUs = 2
	begin(t, b, filler)
	await(t, b, filler.ID, spawner.Up)
	waits := begin(t, b, w.launch(t))
	explained(waits, "1 of 1 slot in the pool can take it, and none has room now", "counts it for alice@slipway.test", "(1 running, 1 waiting); nobody else waits")
	other := w.launch(t)
	other.Account.Login, other.Account.UID = "bob", aliceUID+1
	begin(t, b, other)
	explained(other, "none has room now", "counts it for bob@slipway.test", "1 other user waits too, and none goes before")
	explained(waits, "1 other user waits too, and 1 goes before: 1 who used less of late (priority from ")

	condor.Admin(t, "condor_hold", "-reason", "the disk is being looked at", jobOf(t, w, waits.ID))
	explained(waits, "HTCondor holds it: an administrator holds it: the disk is being looked at", "ask your administrator to release it")
	condor.Admin(t, "condor_hold", "-reason", "enough", jobOf(t, w, filler.ID))
	explained(filler, "an administrator holds it: enough")
	await(t, b, other.ID, spawner.Up)

	w.cfg.Instance, w.cfg.Dir, w.cfg.Extra = w.cfg.Instance+"-slim", w.cfg.Dir+"-slim", map[string]string{"concurrency_limits": "slim"}
	b = w.backend(t)
	one, two := begin(t, b, w.launch(t)), begin(t, b, w.launch(t))
	await(t, b, one.ID, spawner.Up)
	explained(two, "a limit of the site is reached (slim); without that, 1 of 1 slot", "end one of yours")
}
