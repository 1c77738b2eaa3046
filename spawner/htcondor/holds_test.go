package htcondor

import (
	"strings"
	"testing"

	"slipway/spawner"
)

// TestWhoHolds: a hold by hand is lifted by who set it; the schedd's word on who that was is the last one.
func TestWhoHolds(t *testing.T) {
	for name, tc := range map[string]struct {
		code           integer
		reason, heldBy string
	}{
		"an administrator":           {1, "disk on fire (by user condor)", "condor"},
		"who gives another's name":   {1, "mine (by user alice) (by user bob@slipway.test)", "bob@slipway.test"},
		"nobody knows who":           {1, "via condor_hold", "an administrator"},
		"its owner":                  {1, "via condor_hold (by user alice)", ""},
		"its owner, with her domain": {1, "via condor_hold (by user alice@slipway.test)", ""},
		"a limit":                    {3, "too long (by user condor)", ""},
	} {
		j := job{Status: held, Login: "alice", HoldCode: tc.code, HoldReason: tc.reason}
		if o := j.onHold(); o.HeldBy != tc.heldBy {
			t.Errorf("%s: held by %q, want %q", name, o.HeldBy, tc.heldBy)
		}
	}
}

// TestRealWhoHolds holds jobs in a pool, as their owner and as an administrator: that one goes on when the administrator releases it.
func TestRealWhoHolds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.backend(t)
	large := func() spawner.ID {
		l := w.launch(t)
		l.Spec.Resources.CPUs = 1000
		return begin(t, b, l).ID
	}
	own, others := large(), large()
	if out, err := w.pool.As(t, "alice", "/", "condor_hold", jobOf(t, w, own)).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	w.pool.Admin(t, "condor_hold", "-reason", "disk on fire (by user alice)", jobOf(t, w, others))
	if o := await(t, b, own, spawner.Held); o.HeldBy != "" || !strings.HasPrefix(o.Reason, "its owner holds it") {
		t.Errorf("her own: %+v", o)
	}
	if o := await(t, b, others, spawner.Held); o.HeldBy != "condor" || !strings.Contains(o.Reason, "disk on fire") {
		t.Errorf("an administrator's: %+v", o)
	}
	w.pool.Admin(t, "condor_release", jobOf(t, w, others))
	await(t, b, others, spawner.Queued)
}
