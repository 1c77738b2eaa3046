package engine

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/backends"
)

func TestEachIsOfTheCaller(t *testing.T) {
	r := newRecords(Config{}, backends.Backends{})
	for _, w := range []spawner.Workload{
		{ID: "j-2", Owner: "alice", Hub: "main", JobRecord: spawner.JobRecord{Scan: "scan-1", Point: 2}}, {ID: "j-0", Owner: "alice", Hub: "main", JobRecord: spawner.JobRecord{Scan: "scan-1"}},
		{ID: "j-1", Owner: "alice", Hub: "main", JobRecord: spawner.JobRecord{Scan: "scan-1", Point: 1}}, {ID: "j-9", Owner: "alice", Hub: "main"}, {ID: "j-b", Owner: "bob", Hub: "main"},
	} {
		w.Kind, w.Phase = spawner.Job, spawner.Stopped
		Tx{View{r}}.admit(w)
	}
	alice := spawner.Caller{User: "alice", Hub: "main"}
	for name, tc := range map[string]struct {
		c    spawner.Caller
		scan string
		want []spawner.ID // in order, of a scan
		all  int
		gone bool
	}{
		"her scan, in order":   {alice, "scan-1", []spawner.ID{"j-0", "j-1", "j-2"}, 3, false},
		"all of hers":          {alice, "", nil, 4, false},
		"another's scan":       {spawner.Caller{User: "bob", Hub: "main"}, "scan-1", nil, 0, true},
		"of another hub":       {spawner.Caller{User: "alice", Hub: "second"}, "scan-1", nil, 0, true},
		"none of this name":    {alice, "scan-2", nil, 0, true},
		"an administrator's":   {spawner.Caller{User: "root", Hub: "main", Admin: true}, "", nil, 5, false},
		"of a job, its own":    {spawner.Caller{User: "alice", Hub: "main", Workload: "j-1"}, "scan-1", []spawner.ID{"j-1"}, 1, false},
		"nobody has something": {spawner.Caller{}, "", nil, 0, false},
	} {
		var got []spawner.ID
		err := r.Each(t.Context(), tc.c, tc.scan, func(w *spawner.Workload) { got = append(got, w.ID) })
		if tc.gone != errs.Is(err, errs.NotFound) || !tc.gone && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(tc.want, got); len(got) != tc.all || tc.scan != "" && diff != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
}
