package spawner

import (
	"fmt"
	"testing"
	"time"
)

// TestTypicalOfManyJobs: of a hundred jobs that are done, those that ended last say how long one takes.
func TestTypicalOfManyJobs(t *testing.T) {
	m := &Manager{index: newIndex()}
	o, began := owner{"main", "alice"}, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	m.index.owned[o] = map[ID]*entry{}
	for i := range 100 {
		w := Workload{ID: ID(fmt.Sprint("j-", i)), Kind: Job, Owner: o.user, Hub: o.hub, Name: "fit", Phase: Stopped}
		w.Outcome = &Outcome{At: began.Add(time.Duration(i) * time.Hour), Wall: float64(i)}
		m.index.owned[o][w.ID] = &entry{Workload: w}
	}
	if took := m.typicalLocked(Workload{Kind: Job, Owner: o.user, Hub: o.hub, Name: "fit"}); took != 75*time.Second {
		t.Errorf("%s, want that of the last fifty in the middle", took)
	}
}
