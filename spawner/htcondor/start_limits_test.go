package htcondor

import (
	"strings"
	"sync"
	"testing"

	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/batch"
	"slipway/spawner/htcondor/condortest"
)

// insist starts a workload as the engine does: what is not taken yet is tried again. It returns what it was told.
func insist(t *testing.T, b *batch.Backend, l spawner.Launch) (told string) {
	t.Helper()
	until(t, string(l.ID)+" is taken", func() bool {
		err := b.Start(t.Context(), l)
		if errs.Is(err, errs.NoCapacity) {
			told = err.Error()
			return false
		}
		must(t, err)
		return true
	})
	return told
}

// TestRealLimits: at an access point that takes three jobs of a user, two at once, all six points of a scan run in the
// end. It keeps no history: what an administrator removes there has ended all the same.
func TestRealLimits(t *testing.T) {
	t.Parallel()
	w := worldOf(t, condortest.Start(t, condortest.Options{Config: "MAX_JOBS_PER_OWNER = 3\nMAX_JOBS_PER_SUBMISSION = 2\nHISTORY =\n"}))
	b := w.backend(t)
	told := make([]string, 6)
	var wg sync.WaitGroup
	for i := range told {
		l := orders(w.launch(t), "exit 0")
		l.Scan, l.Point = "c-1", i
		wg.Go(func() {
			told[i] = insist(t, b, l)
			o := await(t, b, l.ID, spawner.Exited)
			for ; o.Evicted; o = await(t, b, l.ID, spawner.Exited) { // as happens where a machine is slow
				l.Moves++
				insist(t, b, l)
			}
			if o.ExitCode != 0 || o.Reason != "" {
				t.Errorf("point %d: %+v", i, o)
			}
			sweep(t, b, l.ID)
		})
	}
	wg.Wait()
	if words := strings.Join(told, ""); !strings.Contains(words, "as many jobs in HTCondor's queue as one user may") {
		t.Errorf("it was told %q", words)
	}
	w.cfg.Patience = w.cfg.PollEvery * 20
	b = w.backend(t)
	stopped, left := w.launch(t), w.launch(t)
	for _, l := range []spawner.Launch{stopped, left} {
		insist(t, b, l)
		t.Cleanup(func() { sweep(t, b, l.ID) })
		await(t, b, l.ID, spawner.Up)
	}
	w.pool.Admin(t, "condor_rm", jobOf(t, w, stopped.ID), jobOf(t, w, left.ID))
	must(t, b.Stop(t.Context(), stopped.ID, 0))
	await(t, b, stopped.ID, spawner.Exited)
	if o := await(t, b, left.ID, spawner.Exited); o.Reason == "" || o.Remedy == "" {
		t.Errorf("%+v", o)
	}
}
