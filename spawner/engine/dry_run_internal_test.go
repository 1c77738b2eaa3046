package engine

import (
	"fmt"
	"testing"
	"time"

	"slipway/spawner"
)

// TestTypicalOfManyJobs: of a hundred jobs that are done, those that ended last say how long one takes.
func TestTypicalOfManyJobs(t *testing.T) {
	m := &Manager{index: newIndex()}
	o, began := spawner.Principal{Hub: "main", User: "alice"}, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	m.index.owned[o] = map[spawner.ID]*entry{}
	for i := range 100 {
		w := spawner.Workload{ID: spawner.ID(fmt.Sprint("j-", i)), Kind: spawner.Job, Owner: o.User, Hub: o.Hub, Name: "fit", Phase: spawner.Stopped}
		w.Outcome = &spawner.Outcome{At: began.Add(time.Duration(i) * time.Hour), Wall: float64(i)}
		m.index.owned[o][w.ID] = &entry{Workload: w}
	}
	if took := (View{m}).typical(spawner.Workload{Kind: spawner.Job, Owner: o.User, Hub: o.Hub, Name: "fit"}); took != 75*time.Second {
		t.Errorf("%s, want that of the last fifty in the middle", took)
	}
}
