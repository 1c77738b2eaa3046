package webui

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/hubapi"
	"slipway/spawner"
)

func aScan(states map[hubapi.State]int) hubapi.Scan {
	s := hubapi.Scan{
		Meta:   hubapi.Meta{ID: "scan-1", Name: "<fit>", User: "alice", Backend: "htcondor", Created: time.Now()},
		States: states, Held: min(1, states[hubapi.JobPending]),
	}
	for _, n := range states {
		s.Points += n
	}
	return s
}

func TestTextBar(t *testing.T) {
	for _, tc := range []struct {
		states map[hubapi.State]int
		want   string
	}{
		{map[hubapi.State]int{"done": 7}, "██████████"},
		{map[hubapi.State]int{"done": 5, "running": 5}, "█████▒▒▒▒▒"},
		{map[hubapi.State]int{"done": 9_998, "failed": 1, "pending": 1}, "████████×·"},
		{map[hubapi.State]int{"done": 1, "failed": 1, "canceled": 1, "running": 1, "pending": 9_996}, "█×–▒······"},
		{map[hubapi.State]int{}, ""},
	} {
		if got := textBar(tc.states, aScan(tc.states).Points, 10); got != tc.want {
			t.Errorf("%v: %q, want %q", tc.states, got, tc.want)
		}
	}
}

func FuzzTextBar(f *testing.F) {
	f.Add(uint16(1), uint16(2), uint16(3), uint16(4), uint16(5))
	f.Fuzz(func(t *testing.T, a, b, c, d, e uint16) {
		states := map[hubapi.State]int{"done": int(a), "failed": int(b), "canceled": int(c), "running": int(d), "pending": int(e)}
		points := aScan(states).Points
		if got := []rune(textBar(states, points, barWidth)); points > 0 && len(got) != barWidth {
			t.Errorf("%v: %d characters: %q", states, len(got), string(got))
		}
	})
}

// TestScanButtons holds what is offered for a scan to what of it waits, runs and has ended.
func TestScanButtons(t *testing.T) {
	there := aScan(map[hubapi.State]int{"pending": 1})
	there.Held, there.Waiting = 0, "Held at htcondor: no disk"
	for name, tc := range map[string]struct {
		scan  hubapi.Scan
		state string
		want  []string
	}{
		"waits":      {aScan(map[hubapi.State]int{"pending": 3}), "waiting", []string{"hold", "release", "cancel", "why"}},
		"held":       {aScan(map[hubapi.State]int{"pending": 1}), "held", []string{"release", "cancel", "why"}},
		"held there": {there, "waiting", []string{"hold", "release", "cancel", "why"}},
		"runs":       {aScan(map[hubapi.State]int{"running": 1, "done": 1}), "running", []string{"requeue", "cancel", "discard"}},
		"done":       {aScan(map[hubapi.State]int{"done": 2}), "done", []string{"discard"}},
		"failed":     {aScan(map[hubapi.State]int{"done": 2, "failed": 1}), "failed", []string{"discard"}},
	} {
		w := httptest.NewRecorder()
		if err := ScanPage(w, someVisit(), catalogue(), ScanView{Scan: tc.scan, Leaf: 1, Leaves: 1, From: 1}); err != nil {
			t.Fatal(err)
		}
		doc := parse(t, w.Body.String())
		var got []string
		for d := range all(doc, "main")[0].Descendants() {
			if id := attr(d, "id"); strings.Contains(" hold release requeue cancel discard why ", " "+id+" ") && id != "" {
				got = append(got, id)
			}
			if d.Data == "form" && (attr(d, "method") != "post" || !strings.HasPrefix(attr(d, "action"), "/b/services/slipway/scans/scan-1/") || attr(all(d, "input")[0], "value") != "form-word") {
				t.Errorf("%s: a form %v", name, d.Attr)
			}
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if state := text(all(all(doc, "main")[0], "p")[0]); !strings.HasPrefix(state, tc.state) {
			t.Errorf("%s: the state is %q", name, state)
		}
		for _, verb := range []string{"cancel", "requeue", "discard"} {
			w := httptest.NewRecorder()
			if known, err := AskScan(w, someVisit(), tc.scan, verb); err != nil || !known || (len(all(all(parse(t, w.Body.String()), "main")[0], "form")) != 1) != strings.Contains(w.Body.String(), "There is nothing to do") {
				t.Errorf("%s: %v: %s", verb, err, w.Body)
			}
		}
	}
	ended := aScan(map[hubapi.State]int{"done": 3})
	w := httptest.NewRecorder()
	if _, err := AskScan(w, someVisit(), ended, "cancel"); err != nil || !strings.Contains(w.Body.String(), "all its points have ended") || strings.Contains(w.Body.String(), "Cancel them all") {
		t.Errorf("%v: %s", err, w.Body)
	}
	if known, err := AskScan(httptest.NewRecorder(), someVisit(), there, "explode"); err != nil || known {
		t.Error(known, err)
	}
}

func TestPointsOfAScan(t *testing.T) {
	point := func(n int, phase spawner.Phase, parameters map[string]string) Point {
		w := far(spawner.ID(fmt.Sprintf("j-%d", n)), phase, "wn042")
		w.Scan, w.Point, w.Up = "scan-1", n, time.Now().Add(-100*time.Second)
		return Point{Item{Workload: w}, parameters}
	}
	failed := point(101, spawner.Stopped, map[string]string{"k": "<2>", "lr": strings.Repeat("x", 100)})
	failed.Outcome = &spawner.Outcome{Failed: true, Reason: "out of memory", At: failed.Up.Add(61 * time.Second)}
	view := ScanView{Scan: aScan(map[hubapi.State]int{"running": 200, "failed": 3}), State: "", Leaf: 2, Leaves: 3, From: 101, Most: 203,
		Points: []Point{point(100, spawner.Running, map[string]string{"k": "1", "lr": "0.1"}), failed}}
	w := httptest.NewRecorder()
	if err := ScanPage(w, someVisit(), catalogue(), view); err != nil {
		t.Fatal(err)
	}
	doc := parse(t, w.Body.String())
	var rows []string
	for _, tr := range all(all(doc, "tbody")[0], "tr") {
		rows = append(rows, text(tr))
	}
	when := failed.Outcome.At.UTC().Format("2 January 2006, 15:04 UTC")
	want := []string{"Point 100 1 0.1 running wn042 1 min 40 s", "Point 101 <2> " + strings.Repeat("x", 60) + "... failed wn042 1 min 1 s " + when + " out of memory"}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Error(diff)
	}
	links := map[string]string{}
	for _, a := range all(doc, "a") {
		links[attr(a, "id")] = attr(a, "href")
	}
	page := "/b/services/slipway/scans/scan-1"
	for id, want := range map[string]string{"page-j-101": "/b/services/slipway/jobs/j-101", "pick-failed": page + "?state=failed", "leaf-first": page, "leaf-previous": page, "leaf-next": page + "?leaf=3"} {
		if links[id] != want {
			t.Errorf("%s leads to %q, want %q", id, links[id], want)
		}
	}
	if shown := text(doc); !strings.Contains(shown, "101 to 102 of 203") || len(all(doc, "fit")) > 0 {
		t.Error(shown)
	}
}

// TestScansInTheList holds the overview to one row for a scan.
func TestScansInTheList(t *testing.T) {
	s := aScan(map[hubapi.State]int{"pending": 700, "running": 200, "done": 97, "failed": 3})
	s.Failure, s.Waiting = "out of memory", "Queued at htcondor"
	w := httptest.NewRecorder()
	if err := Overview(w, someVisit(), catalogue(), OverviewView{Scans: []hubapi.Scan{s}, Page: 1, Pages: 2}); err != nil {
		t.Fatal(err)
	}
	doc := parse(t, w.Body.String())
	for _, want := range []string{
		"<fit> scan-1 running First failure: out of memory Queued at htcondor", "700 waiting (1 held), 200 running, 97 done, 3 failed", "the HTCondor pool", "Page 1 of 2 Older", "no other jobs",
	} {
		if !strings.Contains(text(doc), want) {
			t.Errorf("no %q in %s", want, text(doc))
		}
	}
	s.States = map[hubapi.State]int{"done": 1000}
	w = httptest.NewRecorder()
	if err := Overview(w, someVisit(), catalogue(), OverviewView{Scans: []hubapi.Scan{s}}); err != nil || !strings.Contains(w.Body.String(), "/scans/scan-1/discard") {
		t.Errorf("nothing can be done to a scan that has ended, %v", err)
	}
}

func TestWhyPage(t *testing.T) {
	w := httptest.NewRecorder()
	y := Why{Title: "<fit>", Back: "/b/x", BackLabel: "Back", Here: "/b/x/why", Why: hubapi.Explanation{Summary: "no slot has a <GPU>", Slots: 48, Fit: 1, Remedy: "ask for less",
		Clauses: []hubapi.Clause{{Words: "4 GiB of memory", Text: "Memory >= 4096", Excludes: 6, Alone: 2}}}}
	if err := WhyPage(w, someVisit(), y); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"no slot has a <GPU>", "What you can do: ask for less", "Of 48 slots 1 has what it asks for; 0 are free for it now.", "4 GiB of memory 6 of 48 2 Memory >= 4096"} {
		if got := text(parse(t, w.Body.String())); !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
}
