package server

import (
	"cmp"
	"slices"

	"slipway/hubapi"
	"slipway/spawner"
)

// tally sums up a scan out of its points, in whatever order they come. It copies three of them at a time at most.
type tally struct {
	scan   hubapi.Scan
	first  spawner.Workload // of all points
	waits  spawner.Workload // the first that waits and is not held; no ID: none does
	failed spawner.Workload // the first that has failed; likewise
}

func newTally() *tally { return &tally{scan: hubapi.Scan{States: map[hubapi.State]int{}}} }

func tallied(points []spawner.Workload) *tally {
	t := newTally()
	for i := range points {
		t.add(&points[i])
	}
	return t
}

func (t *tally) add(w *spawner.Workload) {
	lower := func(o *spawner.Workload) {
		if o.ID == "" || w.Point < o.Point {
			*o = *w
		}
	}
	lower(&t.first)
	state := jobState(w)
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

// wireScan makes the wire's form of a scan, of which there is one point at least.
func (s *Server) wireScan(t *tally) hubapi.Scan {
	out, first := t.scan, t.first
	out.ID, out.Name, out.User, out.Backend = first.Scan, first.Name, string(first.Owner), first.Backend
	out.Environment, out.Created = first.Spec.Environment, first.Created.UTC()
	if t.waits.ID != "" {
		out.Waiting = s.cfg.Engine.Detail(t.waits)
	}
	if t.failed.ID != "" {
		out.Failure = t.failed.Outcome.Reason
	}
	return out
}

// tallies sum up several scans, by their names.
type tallies map[string]*tally

func (all tallies) add(w *spawner.Workload) {
	if all[w.Scan] == nil {
		all[w.Scan] = newTally()
	}
	all[w.Scan].add(w)
}

// wireScans makes the wire's form of scans, the oldest first.
func (s *Server) wireScans(all tallies) []hubapi.Scan {
	var out []hubapi.Scan
	for _, t := range all {
		out = append(out, s.wireScan(t))
	}
	slices.SortFunc(out, func(a, b hubapi.Scan) int { return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID)) })
	return out
}
