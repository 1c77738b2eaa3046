package jobs

import (
	"fmt"
	"testing"
	"time"

	"slipway/spawner"
	"slipway/spawner/engine"
)

// TestTypicalOfManyJobs: of a hundred jobs that are done, those that ended last say how long one takes.
func TestTypicalOfManyJobs(t *testing.T) {
	o, began := spawner.Principal{Hub: "main", User: "alice"}, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	own := map[spawner.ID]*engine.Entry{}
	for i := range 100 {
		w := spawner.Workload{ID: spawner.ID(fmt.Sprint("j-", i)), Kind: spawner.Job, Owner: o.User, Hub: o.Hub, Name: "fit", Phase: spawner.Stopped}
		w.Outcome = &spawner.Outcome{At: began.Add(time.Duration(i) * time.Hour), Wall: float64(i)}
		own[w.ID] = &engine.Entry{Workload: w}
	}
	if took := typical(own, spawner.Workload{Kind: spawner.Job, Owner: o.User, Hub: o.Hub, Name: "fit"}); took != 75*time.Second {
		t.Errorf("%s, want that of the last fifty in the middle", took)
	}
}
