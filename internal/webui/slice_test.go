package webui

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"slipway/internal/gpu"
	"slipway/spawner"
	"slipway/spawner/catalog"
)

// withSlice is a session that holds a slice.
func withSlice() Item {
	w := session(spawner.Running)
	w.Since, w.Slice, w.Spec.GPU = at(-90), ptr(mig("3g.71gb", 0, 4)), gpu.Request{Mode: gpu.MIG, Profile: "3g.71gb"}
	u := gpu.Use{Source: gpu.SourceGPM, SM: ptr(12.5), Memory: ptr(2 * gib), Peak: ptr(9 * gib), Energy: ptr(5400.5), Hint: "held 69G, used at most 9G: 1g.18gb would do"}
	return Item{Workload: w, Use: u}
}

func singlePage(t *testing.T, i Item) *html.Node {
	t.Helper()
	w := httptest.NewRecorder()
	if err := Single(w, someVisit(), catalogue(), Details{Item: i}); err != nil {
		t.Fatal(err)
	}
	return parse(t, w.Body.String())
}

func TestPageOfASlice(t *testing.T) {
	golden(t, "slice.txt", outline(all(singlePage(t, withSlice()), "main")[0]))
	idle := withSlice()
	idle.Lent, idle.Use.Idle, idle.Slice.Simulated = true, ptr(at(-40)), true
	said := text(singlePage(t, idle))
	for _, words := range []string{"simulated", "no such hardware exists", "nothing has run on it since 20 November 2026, 11:20 UTC", "called back as soon as you do something"} {
		if !strings.Contains(said, words) {
			t.Errorf("%q is not said", words)
		}
	}
}

// TestPageOfAShare: the failure domain of MPS is said where the slice is, and what is not measured is no number.
func TestPageOfAShare(t *testing.T) {
	job := withSlice()
	job.Kind, job.Lender, job.Moves = spawner.Job, "s-9", 2
	job.Slice = &gpu.Slice{GPU: "GPU-m", Model: "NVIDIA L4", Mode: gpu.MPS, Name: "mps:25%/5G", Percent: 25, Memory: 5 * gib, SMs: 15, Tier: gpu.Process}
	job.Use = gpu.Use{Unknown: "several workloads are on this GPU, and nobody can tell whose a process is"}
	doc := singlePage(t, job)
	said := text(all(doc, "main")[0])
	for _, words := range []string{
		"5 GiB of memory, at most 25 % of the processors", "per process. A crash of one program ends all on that GPU.",
		"Use not measured: several workloads are on this GPU", "from an idle session. The job goes back in line",
		"2 times: its slice of a GPU was called back or could not be used, or its owner put it back",
	} {
		if !strings.Contains(said, words) {
			t.Errorf("%q is not in %q", words, said)
		}
	}
	if strings.Contains(said, "estimate") || slices.ContainsFunc(all(doc, "svg"), func(n *html.Node) bool { return attr(n, "class") == "axis thin" }) {
		t.Error("what was not measured is shown")
	}
	if strings.Contains(said, "s-9") {
		t.Error("the session of somebody else is named")
	}
}

func TestPageWithoutASlice(t *testing.T) {
	i := withSlice()
	i.Slice, i.Phase = nil, spawner.Pending
	if said := text(singlePage(t, i)); !strings.Contains(said, "3g.71gb of a GPU, and holds none now") || strings.Contains(said, "not measured") {
		t.Errorf("one that waits: %q", said)
	}
	if said := text(singlePage(t, Item{Workload: session(spawner.Running)})); strings.Contains(said, "GPU") {
		t.Errorf("one without: %q", said)
	}
}

func TestSlicesInTheList(t *testing.T) {
	waits, stopped, lent, borrowed := withSlice(), withSlice(), withSlice(), withSlice()
	waits.Slice, waits.Phase = nil, spawner.Pending
	stopped.Slice, stopped.Phase = nil, spawner.Stopped
	lent.Lent = true
	borrowed.Kind, borrowed.Lender, borrowed.Moves = spawner.Job, "s-1", 1
	for want, i := range map[string]Item{
		"3g.71gb of NVIDIA H200": withSlice(), "asks for 3g.71gb": waits, "": stopped, "3g.71gb of NVIDIA H200, lent out": lent,
		"3g.71gb of NVIDIA H200, borrowed went back in line once": borrowed,
	} {
		w := httptest.NewRecorder()
		if err := Overview(w, someVisit(), catalogue(), viewOf(i)); err != nil {
			t.Fatal(err)
		}
		row := all(parse(t, w.Body.String()), "tbody")[0]
		if got := text(all(row, "td")[1]); !strings.HasSuffix(got, want) || want == "" && strings.Contains(got, "3g.71gb") {
			t.Errorf("%q: the list says %q", want, got)
		}
	}
}

func TestTheWayToTheGPUs(t *testing.T) {
	for _, some := range []bool{true, false} {
		w := httptest.NewRecorder()
		v := someVisit()
		v.GPUs = some
		if err := Overview(w, v, catalogue(), OverviewView{}); err != nil {
			t.Fatal(err)
		}
		led := slices.ContainsFunc(all(parse(t, w.Body.String()), "a"), func(n *html.Node) bool { return attr(n, "href") == "/b/services/slipway/gpus" })
		if led != some {
			t.Errorf("there are GPUs: %t, a link to them: %t", some, led)
		}
	}
}

func TestFormTellsOfSlices(t *testing.T) {
	c := catalogue()
	c.Profiles = append(c.Profiles,
		catalog.Profile{Name: "cut", Images: []string{"root"}, CPUs: 1, Memory: gib, GPU: gpu.Request{Mode: gpu.MIG, Profile: "1g.18gb"}},
		catalog.Profile{Name: "share", Images: []string{"root"}, CPUs: 1, Memory: gib, GPU: gpu.Request{Mode: gpu.MPS, Percent: 25, Memory: 20 * gib}},
		catalog.Profile{Name: "turns", Images: []string{"root"}, CPUs: 1, Memory: gib, GPU: gpu.Request{Mode: gpu.Shared}},
		catalog.Profile{Name: "whole", Images: []string{"root"}, CPUs: 1, Memory: gib, GPU: gpu.Request{Mode: gpu.Whole}},
	)
	rooms := map[string]spawner.Room{
		"cut": {Most: 7, Free: 1, Estimate: -1}, "share": {Most: 7, Lacks: "mps:25%/20G asked, 0 of 7 free", Estimate: 12 * time.Minute}, "turns": {Most: -1, Free: -1},
	}
	doc := formOf(t, Form{Catalogue: c, GPUs: inventory(), Rooms: rooms})
	cards := all(doc, "label")
	for i, want := range map[int]string{
		2: "1 free now 1g.18gb: 1/7 of an NVIDIA H200, 16 GiB of its memory 7 can run at once. Isolation: hardware.",
		3: "about 12 min mps:25%/20G: at most 25 % of the processors of an NVIDIA H200, 20 GiB of its memory 7 can run at once. Isolation: per process. A crash of one program ends all on that GPU.",
		4: "free shared: turns on an NVIDIA L4, the memory shared too Isolation: none. Others of your group are on the same GPU. Who uses too much memory is ended.",
		5: "whole: an NVIDIA H200 to yourself, 140 GiB of memory Isolation: hardware.",
	} {
		if got := text(cards[i]); !strings.Contains(got, want) {
			t.Errorf("the card says %q", got)
		}
	}
	if said := text(cards[0]); strings.Contains(said, "Isolation") || strings.Contains(text(doc), "simulated") {
		t.Errorf("a card without a slice says %q", said)
	}
	if explained := all(all(doc, "details")[0], "dt"); len(explained) != 3 {
		t.Errorf("%d kinds of isolation are explained", len(explained))
	}
	if n := len(all(formOf(t, Form{Catalogue: catalogue()}), "details")); n > 0 {
		t.Error("isolation is explained where there is none")
	}
	inv := inventory()
	inv.System.Simulated = true
	if got := strings.Count(text(formOf(t, Form{Catalogue: c, GPUs: inv})), "simulated"); got != 4 {
		t.Errorf("%d profiles are marked simulated", got)
	}
}
