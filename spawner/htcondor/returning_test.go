package htcondor

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestReturning: that the output of a job is on its way is told, so that nobody removes it meanwhile.
func TestReturning(t *testing.T) {
	for _, s := range []status{idle, running, transferring, completed, held} {
		if o := (job{Status: s, Shadows: 1}).Observation(); o.Returning != (s == transferring) {
			t.Errorf("of status %d: %+v", s, o)
		}
	}
}

// TestShaken: that HTCondor has lost touch with a job's worker is asked for, and told as long as it runs.
func TestShaken(t *testing.T) {
	for text, want := range map[string]bool{
		`{"JobStatus":2,"TotalJobReconnectAttempts":2}`: true, `{"JobStatus":2}`: false, `{"JobStatus":4,"TotalJobReconnectAttempts":2}`: false,
	} {
		var w wireJob
		must(t, json.Unmarshal([]byte(text), &w))
		if o := w.job().Observation(); o.Shaken != want || !strings.Contains(attributes(), "TotalJobReconnectAttempts") {
			t.Errorf("%s: %+v", text, o)
		}
	}
}
