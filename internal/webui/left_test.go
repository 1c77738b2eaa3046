package webui

import (
	"fmt"
	"testing"

	"slipway/hubapi"
	"slipway/spawner"
)

// TestWhatIsLeft: the page of a job names its files, of the runner's the result alone; a row of a table is short.
func TestWhatIsLeft(t *testing.T) {
	r := row{Item: Item{Workload: spawner.Workload{ID: "j-1", Kind: spawner.Job}, Log: 7, Files: []hubapi.File{
		{Name: "a b?.root", Size: 3}, {Name: "slipway-outcome.json", Size: 90}, {Name: "slipway-result.pkl", Size: 9},
	}}, Visit: Visit{Prefix: "/p/"}}
	words := func(all []download) (out []string) {
		for _, d := range all {
			out = append(out, fmt.Sprint(d.Name, " ", d.Link, " ", d.Size()))
		}
		return out
	}
	want := "[a b?.root /p/jobs/j-1/files/a%20b%3F.root 3 B slipway-result.pkl /p/jobs/j-1/files/slipway-result.pkl 9 B j-1.log /p/jobs/j-1/log 7 B]"
	if got := fmt.Sprint(words(r.Left())); got != want || fmt.Sprint(words(r.InTable())) != want {
		t.Error(got)
	}
	for i := range leftShown + 5 {
		r.Files = append(r.Files, hubapi.File{Name: fmt.Sprint(i), Size: 1000})
	}
	if got, want := fmt.Sprint(words(r.InTable())), "[106 files /p/jobs/j-1#left-files 105 kB j-1.log /p/jobs/j-1/log 7 B]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := r.Left(); len(got) != leftShown+1 || r.Further() != "And 6 more files: `slipway jobs files j-1` lists them all, and fetches them." {
		t.Errorf("%d links, %q", len(got), r.Further())
	}
}
