package convert

import (
	"cmp"
	"slices"

	"slipway/hubapi"
	"slipway/spawner"
)

// Tally sums up a scan out of its points, in whatever order they come. It copies three of them at a time at most.
type Tally struct {
	scan   hubapi.Scan
	first  spawner.Workload // of all points
	waits  spawner.Workload // the first that waits and is not held; no ID: none does
	failed spawner.Workload // the first that has failed; likewise
}

func NewTally() *Tally { return &Tally{scan: hubapi.Scan{States: map[hubapi.State]int{}}} }

func TallyOf(points []spawner.Workload) *Tally {
	t := NewTally()
	for i := range points {
		t.Add(&points[i])
	}
	return t
}

func (t *Tally) Add(w *spawner.Workload) {
	lower := func(o *spawner.Workload) {
		if o.ID == "" || w.Point < o.Point {
			*o = *w
		}
	}
	lower(&t.first)
	state := State(w)
	t.scan.Points++
	t.scan.States[state]++
	switch {
	case state == hubapi.JobPending && w.Held:
		t.scan.Held++
	case state == hubapi.JobPending:
		lower(&t.waits)
	case state == hubapi.JobFailed:
		lower(&t.failed)
	}
}

// Scan makes the API's form of a scan, of which there is one point at least.
func (v *Converter) Scan(t *Tally) hubapi.Scan {
	out, first := t.scan, t.first
	out.ID, out.Name, out.User, out.Backend = first.Scan, first.Name, string(first.Owner), first.Backend
	out.Environment, out.Created = first.Spec.Environment, first.Created.UTC()
	if t.waits.ID != "" {
		out.Waiting = v.cfg.Engine.Detail(t.waits)
	}
	if t.failed.ID != "" {
		out.Failure = t.failed.Outcome.Reason
	}
	return out
}

// Tallies sum up several scans, by their names.
type Tallies map[string]*Tally

func (all Tallies) Add(w *spawner.Workload) {
	if all[w.Scan] == nil {
		all[w.Scan] = NewTally()
	}
	all[w.Scan].Add(w)
}

// Scans makes the API's form of scans, the oldest first.
func (v *Converter) Scans(all Tallies) []hubapi.Scan {
	var out []hubapi.Scan
	for _, t := range all {
		out = append(out, v.Scan(t))
	}
	slices.SortFunc(
		out, func(a, b hubapi.Scan) int { return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID)) },
	)
	return out
}
