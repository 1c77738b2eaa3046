package webui

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/hubapi"
	"slipway/spawner"
	"slipway/spawner/catalog"
)

func aJob(change func(*Item)) row {
	i := Item{Mine: true, Workload: spawner.Workload{ID: "j-1", Kind: spawner.Job, Owner: "alice", Name: "<fit>", Phase: spawner.Stopped, Want: spawner.WantRunning,
		Spec: spawner.Spec{Resources: spawner.Resources{CPUs: 2, Memory: 1 << 30}, JobSpec: spawner.JobSpec{TimeLimit: time.Hour}}, Created: time.Now(), Since: time.Now()}}
	change(&i)
	return row{Item: i, Visit: Visit{Prefix: "/p/", User: "alice", Form: "f"}}
}

func TestTry(t *testing.T) {
	for want, tries := range map[string][2]int{"": {0, 0}, "1 of 4": {0, 3}, "2 of 4": {1, 3}, "4 of 4": {3, 3}, "5": {4, 3}, "2": {1, 0}} {
		if got := aJob(func(i *Item) { i.Attempt, i.Spec.Retries = tries[0], tries[1] }).Try(); got != want {
			t.Errorf("%v: %q, want %q", tries, got, want)
		}
	}
}

func TestHeadway(t *testing.T) {
	for _, tc := range []struct {
		said hubapi.JobProgress
		want progressBar
	}{
		{hubapi.JobProgress{Done: 40, Of: 100, Text: "epoch 4"}, progressBar{0.4, "40 of 100 (40 %), epoch 4"}},
		{hubapi.JobProgress{Done: 7}, progressBar{-1, "7"}},
		{hubapi.JobProgress{Done: 9, Of: 3}, progressBar{1, "9 of 3 (100 %)"}},
		{hubapi.JobProgress{Done: -1, Of: 3}, progressBar{0, "-1 of 3 (0 %)"}},
	} {
		if got := progressBarOf(tc.said); *got != tc.want {
			t.Errorf("%+v: %+v, want %+v", tc.said, *got, tc.want)
		}
	}
	if aJob(func(i *Item) { i.Phase, i.Progress = spawner.Pending, &hubapi.JobProgress{Done: 1} }).ProgressBar() != nil {
		t.Error("one that waits for its next try shows the progress of the last")
	}
}

func TestShortTimes(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0 s", 3 * time.Millisecond: "0.01 s", 412 * time.Millisecond: "0.41 s", 3240 * time.Millisecond: "3.2 s", 12_400 * time.Millisecond: "12 s"} {
		if got := took(d); got != want {
			t.Errorf("%s is told as %q, want %q", d, got, want)
		}
	}
}

// People read the state by the name that it has in the API and in the page's style.
func TestCanceledJobs(t *testing.T) {
	rec := httptest.NewRecorder()
	at := time.Unix(1, 0)
	job := spawner.Workload{ID: "j-1", Kind: spawner.Job, Backend: "local", JobRecord: spawner.JobRecord{Scan: "scan-1"}, Phase: spawner.Stopped, Up: at, Outcome: &spawner.Outcome{Canceled: true, At: at.Add(400 * time.Millisecond)}}
	scan := hubapi.Scan{
		Meta: hubapi.Meta{ID: "scan-1", Name: "lr"}, Points: 2,
		States: map[hubapi.State]int{"canceled": 1, "failed": 1}, Failure: "it",
	}
	err := ScanPage(rec, Visit{Prefix: "/p/"}, catalog.Catalogue{}, ScanView{Scan: scan, Points: []Point{{Item: Item{Workload: job}}}, Leaf: 1, Leaves: 1, From: 1, Most: 1})
	if err != nil {
		t.Fatal(err)
	}
	page := rec.Body.String()
	for _, words := range []string{`<span class="state canceled">canceled</span>`, "1 canceled", "0.4 s", ">this host<", "Why the first of them failed"} {
		if !strings.Contains(page, words) {
			t.Errorf("the page lacks %q", words)
		}
	}
}

func TestFigures(t *testing.T) {
	got := aJob(func(i *Item) {
		i.Outcome = &spawner.Outcome{MaxRSS: 512 << 20, CPU: 90, Wall: 60, GPU: &spawner.SliceUse{Busy: 0.625, Memory: 1 << 30, Energy: 2150}}
	}).Figures()
	want := []figure{
		{"Peak memory", "512 MiB of the 1 GiB asked for (50 %)"}, {"Ran for", "1 min 0 s, of at most 1 h"}, {"CPU time", "1 min 30 s (75 % of its 2 CPUs)"},
		{"Of its slice of a GPU", "busy 63 % of the time, at most 1 GiB of its memory, 2.15 kJ"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := aJob(func(i *Item) { i.Outcome = &spawner.Outcome{} }).Figures(); len(got) > 0 {
		t.Errorf("nothing was measured: %+v", got)
	}
}

// TestRanIsOneTime holds that pages tell one time for a job's program, and call by its own name what took longer.
func TestRanIsOneTime(t *testing.T) {
	at := time.Date(2026, 11, 20, 10, 30, 0, 0, time.UTC)
	for _, tt := range []struct {
		remote  bool
		program float64 // seconds
		want    stage
		took    string
	}{
		{false, 1.6, stage{"Ran", at, "1.6 s"}, "1.6 s"},
		{false, 0, stage{"Ran", at, "11 s"}, "11 s"},
		{true, 0.7, stage{"Ran, with start and transfer", at, "11 s"}, "0.7 s"},
		{true, 0, stage{"Ran", at, "11 s"}, "11 s"},
	} {
		r := aJob(func(i *Item) {
			i.Created, i.Up, i.Remote = at.Add(-time.Minute), at, tt.remote
			i.Outcome = &spawner.Outcome{At: at.Add(11 * time.Second), Wall: tt.program}
		})
		if all := r.Timeline(); len(all) != 4 || all[2] != tt.want || r.Took() != tt.took {
			t.Errorf("%+v: %+v, %s", tt, all, r.Took())
		}
	}
}

func TestOwnFailuresAreTriedAgain(t *testing.T) {
	failed := &spawner.Outcome{Failed: true}
	for name, tc := range map[string]struct {
		change func(*Item)
		want   bool
	}{
		"failed":    {func(i *Item) { i.Outcome = failed }, true},
		"canceled":  {func(i *Item) { i.Outcome = &spawner.Outcome{Canceled: true} }, true},
		"done":      {func(i *Item) { i.Outcome = &spawner.Outcome{} }, false},
		"another's": {func(i *Item) { i.Outcome, i.Mine = failed, false }, false},
		"goes":      {func(i *Item) { i.Outcome, i.Want = failed, spawner.WantGone }, false},
		"runs":      {func(i *Item) { i.Outcome, i.Phase = failed, spawner.Running }, false},
		"a session": {func(i *Item) { i.Outcome, i.Kind = failed, spawner.Lab }, false},
	} {
		if got := aJob(tc.change).CanRetry(); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The page of a job says what it waits for, how it went before, what it has used and until when it is kept, with all
// text escaped.
func TestJobPage(t *testing.T) {
	r := aJob(func(i *Item) {
		i.Attempt, i.Attempts, i.Spec.Retries, i.After, i.Origin = 2, []spawner.Outcome{{Failed: true, Reason: "<b>first</b>"}, {Canceled: true}}, 2, []string{"scan-9"}, "j-0"
		i.Outcome, i.Expires = &spawner.Outcome{Failed: true, Reason: "out of memory", MaxRSS: 1 << 30}, time.Now()
		i.Progress, i.Spec.Out = &hubapi.JobProgress{Done: 1, Of: 4, Text: "<i>"}, []string{"*.png"}
	})
	w := httptest.NewRecorder()
	if err := Single(w, r.Visit, catalog.Catalogue{}, Details{Item: r.Item}); err != nil {
		t.Fatal(err)
	}
	page := w.Body.String()
	for _, want := range []string{
		`value="0.25"`, "1 of 4 (25 %), &lt;i&gt;", "3 of 3", `href="/p/scans/scan-9"`, `href="/p/jobs/j-0"`, "Earlier tries", "&lt;b&gt;first&lt;/b&gt;",
		"(100 %)", "Kept until", "*.png", `href="/p/jobs/j-1/retry"`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in %s", want, page)
		}
	}
	if strings.Contains(page, "<b>first") || strings.Contains(page, "text, <i>") {
		t.Error("text is not escaped")
	}
}
