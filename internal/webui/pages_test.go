package webui

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"slipway/spawner"
)

// someVisit is somebody who looks at a page.
func someVisit() Visit {
	return Visit{User: "alice", Prefix: "/b/services/slipway/", Home: "/b/hub/", Form: "form-word", Stream: "stream-word"}
}

// viewOf is an overview of sessions and jobs.
func viewOf(items ...Item) (o OverviewView) {
	for _, i := range items {
		switch i.Kind {
		case spawner.Job:
			o.Jobs = append(o.Jobs, i)
		case spawner.Kernel:
			o.Kernels = append(o.Kernels, i)
		default:
			o.Sessions = append(o.Sessions, i)
		}
	}
	return o
}

func session(phase spawner.Phase) spawner.Workload {
	return spawner.Workload{ID: "s-1", Kind: spawner.Lab, Owner: "a b", Name: "x/y", Phase: phase, Want: spawner.WantRunning,
		Spec: spawner.Spec{SessionSpec: spawner.SessionSpec{Profile: "small", Image: "x", Prefix: "/b/user/a b/x%y/"}}}
}

// TestButtons holds what is offered for a workload to its state.
func TestButtons(t *testing.T) {
	keep := spawner.PlannedStop{At: time.Now().Add(time.Hour), Why: "idle", CanKeep: true, MaxKeep: 2 * time.Hour}
	job := session(spawner.Running)
	job.ID, job.Kind = "j-1", spawner.Job
	ended := session(spawner.Stopped)
	ended.Outcome = &spawner.Outcome{Failed: true, Reason: "broken"}
	gone := session(spawner.Stopped)
	gone.Want = spawner.WantGone
	ending := session(spawner.Running)
	ending.Want = spawner.WantStopped
	kernel, died := session(spawner.Running), ended
	kernel.Kind, kernel.Spec.Prefix, died.Kind = spawner.Kernel, "", spawner.Kernel
	standby := kernel
	standby.Phase, standby.Standby = spawner.Starting, "python-gpu"
	shut := kernel
	shut.Want = spawner.WantGone
	queued, held := far("j-1", spawner.Starting, ""), far("j-1", spawner.Pending, "")
	queued.Name, held.Name, held.Held = "x/y", "x/y", true
	dormant := far("s-1", spawner.Stopped, "wn042")
	dormant.Name, dormant.Outcome = "x/y", &spawner.Outcome{Expired: true, Reason: "idle for 1 h"}
	for name, tc := range map[string]struct {
		item  Item
		state string
		want  []string
	}{
		"running":        {Item{Workload: session(spawner.Running), PlannedStop: keep}, "running", []string{"Open x/y", "Keep x/y for 2 h", "Stop x/y", "Discard x/y ..."}},
		"no keeping":     {Item{Workload: session(spawner.Running)}, "running", []string{"Open x/y", "Stop x/y", "Discard x/y ..."}},
		"waiting":        {Item{Workload: session(spawner.Pending), Queue: spawner.Queue{Place: 2, Estimate: -1}}, "waiting", []string{"Cancel start x/y"}},
		"booting":        {Item{Workload: session(spawner.Booting)}, "starting", []string{"Cancel start x/y"}},
		"stopping":       {Item{Workload: session(spawner.Stopping)}, "stopping", nil},
		"to be ended":    {Item{Workload: ending}, "stopping", nil},
		"failed":         {Item{Workload: ended}, "failed", []string{"Start x/y again...", "Discard x/y ..."}},
		"to be gone":     {Item{Workload: gone}, "being discarded", nil},
		"a job":          {Item{Workload: job}, "running", []string{"Requeue x/y", "Cancel x/y"}},
		"a job waits":    {Item{Workload: queued, Detail: "Queued at htcondor"}, "waiting", []string{"Hold x/y", "Cancel x/y"}},
		"a job held":     {Item{Workload: held, Detail: "its owner has it wait"}, "held", []string{"Release x/y", "Cancel x/y"}},
		"held there":     {Item{Workload: queued, Detail: "Held at htcondor: no disk"}, "held at htcondor: no disk", []string{"Hold x/y", "Release x/y", "Cancel x/y"}},
		"held as it ran": {Item{Workload: job, Detail: "Held at htcondor: no disk"}, "held at htcondor: no disk", []string{"Release x/y", "Cancel x/y"}},
		"slot given":     {Item{Workload: dormant}, "held gave its slot back: start it again to resume idle for 1 h", []string{"Start x/y again...", "Discard x/y ..."}},
		"a kernel":       {Item{Workload: kernel, PlannedStop: keep}, "running", []string{"Keep x/y for 2 h", "Shut down x/y"}},
		"a kernel died":  {Item{Workload: died}, "failed broken", nil},
		"stands by":      {Item{Workload: standby, Detail: "stands by to be alice's next kernel"}, "standby stands by to be", []string{"Shut down x/y"}},
		"is shut down":   {Item{Workload: shut}, "stopping", nil},
		"being undone":   {Item{Workload: session(spawner.Removing)}, "removing", nil},
	} {
		w := httptest.NewRecorder()
		if err := Overview(w, someVisit(), catalogue(), viewOf(tc.item)); err != nil {
			t.Fatal(err)
		}
		doc := parse(t, w.Body.String())
		var got []string
		for d := range all(doc, "tbody")[0].Descendants() {
			if d.Data == "button" || d.Data == "a" && strings.HasPrefix(attr(d, "class"), "button") {
				got = append(got, text(d))
			}
			if d.Data == "form" && (attr(d, "method") != "post" || !strings.HasPrefix(attr(d, "action"), "/b/services/slipway/") || attr(all(d, "input")[0], "value") != "form-word") {
				t.Errorf("%s: a form %v", name, d.Attr)
			}
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if states := text(all(all(doc, "tbody")[0], "td")[0]); !strings.HasPrefix(states, tc.state) {
			t.Errorf("%s: the state is %q", name, states)
		}
	}
}

// TestStateInWords holds what stands behind a state to reading on from it.
func TestStateInWords(t *testing.T) {
	kept := session(spawner.Running)
	kept.KeepUntil = time.Now().Add(time.Hour)
	lasting, later := kept, time.Date(2036, 11, 20, 10, 30, 0, 0, time.UTC)
	lasting.KeepUntil = later.Add(-time.Hour)
	for want, item := range map[string]Item{
		"waiting next in line: 2 CPUs asked, 1 of 4 free":                       {Workload: session(spawner.Pending), Queue: spawner.Queue{Place: 1, Lacks: "2 CPUs asked, 1 of 4 free", Estimate: -1}},
		"waiting number 3 in line":                                              {Workload: session(spawner.Pending), Queue: spawner.Queue{Place: 3, Estimate: -1}},
		"Kept until 20 November 2036, 10:30 UTC then it stops (idle for 50 min": {Workload: lasting, PlannedStop: spawner.PlannedStop{At: later, Why: "idle for 50 min of at most 1 h"}},
		"UTC not by itself":                                                     {Workload: session(spawner.Running)},
		"you keep it until then":                                                {Workload: kept, PlannedStop: spawner.PlannedStop{At: kept.KeepUntil, Why: "idle for 0 min of at most 3 min"}},
		"idle for 50 min of at most 1 h":                                        {Workload: kept, PlannedStop: spawner.PlannedStop{At: kept.KeepUntil.Add(time.Hour), Why: "idle for 50 min of at most 1 h"}},
	} {
		w := httptest.NewRecorder()
		if err := Overview(w, someVisit(), catalogue(), viewOf(item)); err != nil {
			t.Fatal(err)
		}
		if got := text(all(parse(t, w.Body.String()), "tbody")[0]); !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
}

func TestLinksAreEscaped(t *testing.T) {
	links := func(i Item) (hrefs []string) {
		w := httptest.NewRecorder()
		if err := Overview(w, someVisit(), catalogue(), viewOf(i)); err != nil {
			t.Fatal(err)
		}
		for _, a := range all(all(parse(t, w.Body.String()), "tbody")[0], "a") {
			hrefs = append(hrefs, attr(a, "href"))
		}
		return hrefs
	}
	if got := links(Item{Workload: session(spawner.Running)}); !slices.Contains(got, "/b/user/a%20b/x%25y/") {
		t.Errorf("%q", got)
	}
	if got := links(Item{Workload: session(spawner.Stopped)}); !slices.Contains(got, "/b/hub/spawn/a%20b/x%2Fy") {
		t.Errorf("%q", got)
	}
}

// TestPagesWithoutScripts holds the pages to asking again by themselves, and to their policy.
func TestPagesWithoutScripts(t *testing.T) {
	for phase, refresh := range map[spawner.Phase]string{spawner.Booting: "3", spawner.Running: "30"} {
		w := httptest.NewRecorder()
		d := Details{Item: Item{Workload: session(phase)}, Tail: "</pre><b>x", Steps: []spawner.Event{{Seq: 7, Percent: 40, Message: "<i>half"}, {Seq: 8, Percent: -1, Message: "on"}}}
		if err := Single(w, someVisit(), catalogue(), d); err != nil {
			t.Fatal(err)
		}
		doc := parse(t, strings.ReplaceAll(w.Body.String(), "noscript", "div"))
		metas := slices.DeleteFunc(all(doc, "meta"), func(n *html.Node) bool { return attr(n, "http-equiv") != "refresh" })
		if len(metas) != 1 || attr(metas[0], "content") != refresh {
			t.Errorf("%s: asks again %d times", phase, len(metas))
		}
		if len(all(doc, "i")) > 0 || len(all(doc, "b")) > 0 || len(all(doc, "li")) != 2 {
			t.Errorf("%s: %s", phase, w.Body)
		}
		bars := all(doc, "progress")
		if moving := phase == spawner.Booting; len(bars) > 0 != moving || moving && (attr(bars[0], "value") != "40" || attr(bars[0], "aria-label") == "") {
			t.Errorf("%s: progress %v", phase, bars)
		}
		for d := range doc.Descendants() {
			for _, a := range d.Attr {
				if strings.HasPrefix(a.Key, "on") || a.Key == "style" || (a.Key == "src" || a.Key == "href" || a.Key == "action") && !strings.HasPrefix(a.Val, "/b/") {
					t.Errorf("%s: <%s %s=%q>", phase, d.Data, a.Key, a.Val)
				}
			}
		}
		for _, element := range []string{"style", "script"} {
			for _, n := range all(doc, element) {
				if nonce := attr(n, "nonce"); nonce == "" || !strings.Contains(w.Header().Get("Content-Security-Policy"), "'nonce-"+nonce+"'") {
					t.Errorf("%s: a %s outside the policy", phase, element)
				}
			}
		}
	}
}

// TestKernelsApart: kernels have a table of their own, with the notebooks that they compute for, and nothing of them is
// said to be kept.
func TestKernelsApart(t *testing.T) {
	k := session(spawner.Stopped)
	k.ID, k.Kind, k.Name, k.Kernel = "s-2", spawner.Kernel, "python-gpu", "secret-id"
	k.Notebooks = []spawner.Notebook{{Path: "ana/<b>.ipynb"}, {Path: "ana/<b>.ipynb"}, {Name: "console 1"}}
	w := httptest.NewRecorder()
	if err := Overview(w, someVisit(), catalogue(), viewOf(Item{Workload: session(spawner.Running)}, Item{Workload: k})); err != nil {
		t.Fatal(err)
	}
	tables := all(parse(t, w.Body.String()), "tbody")
	if len(tables) != 2 || len(all(tables[0], "tr")) != 1 || !strings.Contains(text(tables[1]), "python-gpu ana/<b>.ipynb, console 1") {
		t.Errorf("%d tables: %s", len(tables), w.Body)
	}
	page := httptest.NewRecorder()
	if err := Single(page, someVisit(), catalogue(), Details{Item: Item{Workload: k}}); err != nil {
		t.Fatal(err)
	}
	if shown := page.Body.String(); !strings.Contains(shown, "<h1>Kernel python-gpu</h1>") || strings.Contains(shown, "kept") || strings.Contains(shown+w.Body.String(), "secret-id") {
		t.Errorf("its page: %s", shown)
	}
}

func TestManyJobs(t *testing.T) {
	w := httptest.NewRecorder()
	view := viewOf(Item{Workload: spawner.Workload{ID: "j-1", Kind: spawner.Job, Phase: spawner.Stopped}})
	view.Page, view.Pages = 2, 3
	if err := Overview(w, someVisit(), catalogue(), view); err != nil {
		t.Fatal(err)
	}
	doc := parse(t, w.Body.String())
	if rows := len(all(doc, "tr")); rows != 2 || !strings.Contains(text(doc), "Newer Page 2 of 3 Older") {
		t.Errorf("%d rows", rows)
	}
	if !slices.ContainsFunc(all(doc, "a"), func(n *html.Node) bool { return attr(n, "href") == "/b/hub/spawn" }) {
		t.Error("who has no session is not led to one")
	}
}
