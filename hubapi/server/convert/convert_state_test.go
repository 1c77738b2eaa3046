package convert

import (
	"testing"

	"slipway/hubapi"
	"slipway/spawner"
)

// TestHeldIsNotRunning: a job that is being taken back from where it is queued, to be held, counts among those that
// wait.
func TestHeldIsNotRunning(t *testing.T) {
	for want, w := range map[hubapi.State]spawner.Workload{
		hubapi.JobPending: {Phase: spawner.Stopping, Want: spawner.WantRunning, JobRecord: spawner.JobRecord{Held: true, Withdrawn: true}, LeaseRecord: spawner.LeaseRecord{Moving: true}},
		hubapi.JobRunning: {Phase: spawner.Stopping, Want: spawner.WantStopped, JobRecord: spawner.JobRecord{Held: true, Withdrawn: true}, LeaseRecord: spawner.LeaseRecord{Moving: true}}, // canceled meanwhile
	} {
		if got := State(&w); got != want {
			t.Errorf("%+v is %s, want %s", w, got, want)
		}
	}
	var s Converter
	if scan := s.Scan(TallyOf([]spawner.Workload{{Phase: spawner.Stopping, Want: spawner.WantRunning, JobRecord: spawner.JobRecord{Held: true}}})); scan.Held != 1 || scan.Word() != "held" {
		t.Errorf("%+v", scan)
	}
}
