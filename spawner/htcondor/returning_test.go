package htcondor

import "testing"

// TestReturning: that the output of a job is on its way is told, so that nobody removes it meanwhile.
func TestReturning(t *testing.T) {
	for _, s := range []status{idle, running, transferring, completed, held} {
		if o := (job{Status: s, Shadows: 1}).observation(); o.Returning != (s == transferring) {
			t.Errorf("of status %d: %+v", s, o)
		}
	}
}
