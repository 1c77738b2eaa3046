package webui

import (
	"flag"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"slipway/internal/gpu"
	"slipway/spawner"
)

var update = flag.Bool("update", false, "write the golden files anew")

const gib = int64(1) << 30

// at is when all of the tests' inventory happened.
func at(minutes int) time.Time {
	return time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC).Add(time.Duration(minutes) * time.Minute)
}

func h200() gpu.Device {
	return gpu.Device{UUID: "GPU-5368a050-5e28-4f2b", Name: "NVIDIA H200", Memory: 140 * gib, SMs: 132, Slots: 8, Profiles: []gpu.Profile{
		{Name: "1g.18gb", Compute: 1, Memory: 16 * gib, SMs: 16}, {Name: "1g.18gb+me", Compute: 1, Memory: 16 * gib, SMs: 16},
		{Name: "1g.35gb", Compute: 1, Memory: 33 * gib, SMs: 26}, {Name: "3g.71gb", Compute: 3, Memory: 69 * gib, SMs: 60}, {Name: "7g.141gb", Compute: 7, Memory: 140 * gib, SMs: 132},
	}}
}

func a30() gpu.Device {
	return gpu.Device{Index: 1, UUID: "GPU-a30", Name: "NVIDIA A30", Memory: 24 * gib, Slots: 4, Profiles: []gpu.Profile{{Name: "1g.6gb", Compute: 1, Memory: 6 * gib}, {Name: "4g.24gb", Compute: 4, Memory: 24 * gib}}}
}

// mig is a place of an H200 that is cut.
func mig(name string, start, size int) gpu.Slice {
	p, _ := h200().Profile(name)
	return gpu.Slice{GPU: h200().UUID, Model: "NVIDIA H200", Mode: gpu.MIG, Name: name, Profile: name, Memory: p.Memory, SMs: p.SMs, Tier: gpu.Hardware,
		Placement: gpu.Placement{Start: start, Size: size}}
}

// ptr returns a value that is known.
func ptr[T any](v T) *T { return &v }

func inventory() gpu.Inventory {
	idle := gpu.Use{Source: gpu.SourceGPM, SM: ptr(0.0), Memory: ptr(2 * gib), Peak: ptr(9 * gib), Idle: ptr(at(-40)), Hint: "held 69G, used at most 9G: 1g.18gb would do"}
	busy := gpu.Use{Source: gpu.SourceGPM, SM: ptr(87.4), Memory: ptr(15 * gib), Peak: ptr(16 * gib), Hint: "not for others"}
	listed := gpu.Use{Source: gpu.SourceProcessList, Memory: ptr(3 * gib), Unknown: "the driver does not say how busy each process is"}
	first := gpu.State{
		Device: h200(), Mode: gpu.MIG, Tier: gpu.Hardware, Condition: gpu.Ready,
		Offers: []gpu.Offer{{Name: "1g.18gb", Free: 1, Most: 7, Tier: gpu.Hardware}, {Name: "3g.71gb", Most: 2, Tier: gpu.Hardware}},
		Slices: []gpu.SliceState{
			{Slice: mig("3g.71gb", 0, 4), Holder: "s-1", Lent: "j-9", Since: at(-90), Use: idle},
			{Slice: mig("1g.18gb", 4, 1), Holder: "s-2", Since: at(-30), Use: busy},
			{Slice: mig("1g.18gb", 5, 1)},
			{Slice: mig("1g.18gb", 6, 1), Foreign: true, Why: "used by process 4711, which no workload has started"},
			{Slice: mig("1g.18gb", 7, 1), Quarantined: ptr(at(25)), Why: "the self-test failed: <cuInit>"},
		},
		Reading: &gpu.Reading{Utilisation: -1, SM: -1, MemoryUsed: 20 * gib, Power: 312_400, Temperature: 61},
	}
	mps := gpu.Slice{GPU: "GPU-m", Model: "NVIDIA H200", Mode: gpu.MPS, Name: "mps:25%/20G", Percent: 25, Memory: 20 * gib, Tier: gpu.Process}
	second := gpu.State{
		Device: a30(), Mode: gpu.MIG, Tier: gpu.Hardware, Condition: gpu.Drained, Why: "Xid 79: it has fallen off the bus", Offers: []gpu.Offer{{Name: "1g.6gb", Most: 4, Tier: gpu.Hardware}},
	}
	third := gpu.State{
		Device: gpu.Device{Index: 2, UUID: "GPU-m", Name: "NVIDIA H200", Memory: 140 * gib}, Mode: gpu.MPS, Tier: gpu.Process, Condition: gpu.Ready,
		Offers:  []gpu.Offer{{Name: "mps:25%/35G", Free: 3, Most: 4, Tier: gpu.Process}},
		Slices:  []gpu.SliceState{{Slice: mps, Holder: "s-3", Since: at(-5), Use: listed}, {Slice: mps, Holder: "s-4", Since: at(-4)}},
		Reading: &gpu.Reading{Utilisation: 40, MemoryUsed: -1, Power: -1, Temperature: -1},
	}
	fourth := gpu.State{
		Device: gpu.Device{Index: 3, UUID: "GPU-s", Name: "NVIDIA L4", Memory: 22 * gib}, Mode: gpu.Shared, Tier: gpu.None, Condition: gpu.Ready,
		Offers: []gpu.Offer{{Name: "shared", Free: 3, Most: 4, Tier: gpu.None}},
		Slices: []gpu.SliceState{{Slice: gpu.Slice{Mode: gpu.Shared, Name: "shared/10G", Memory: 10 * gib, Tier: gpu.None}, Holder: "s-5", Since: at(-3)}},
	}
	fifth := gpu.State{
		Device: gpu.Device{Index: 4, UUID: "GPU-w", Name: "NVIDIA H200", Memory: 140 * gib}, Mode: gpu.Whole, Tier: gpu.Hardware, Condition: gpu.Gone,
		Why: "no answer since 11:50", Offers: []gpu.Offer{{Name: "whole", Most: 1, Tier: gpu.Hardware}},
	}
	return gpu.Inventory{Taken: at(0), System: gpu.System{Driver: "580.159.04", CUDA: 13000}, GPUs: []gpu.State{first, second, third, fourth, fifth}}
}

// hers is what alice may see.
func hers() map[spawner.ID]spawner.Workload {
	return map[spawner.ID]spawner.Workload{"s-1": {ID: "s-1", Kind: spawner.Lab, Owner: "alice", Name: "fit"}}
}

func gpusPage(t *testing.T, inv gpu.Inventory, known map[spawner.ID]spawner.Workload) *html.Node {
	t.Helper()
	w := httptest.NewRecorder()
	if err := GPUsPage(w, someVisit(), GPUsView{Inventory: inv, Workloads: known}); err != nil {
		t.Fatal(err)
	}
	return parse(t, strings.ReplaceAll(w.Body.String(), "noscript", "div"))
}

// outline returns what a reader without eyes gets of a page: its texts by element, and what pictures are called.
func outline(n *html.Node) string {
	var lines []string
	for d := range n.Descendants() {
		if d.Type != html.ElementNode {
			continue
		}
		switch d.Data {
		case "h1", "h2", "p", "dt", "dd", "th", "td", "summary":
			if said := text(d); said != "" {
				lines = append(lines, d.Data+" "+said)
			}
		case "svg":
			if name := attr(d, "aria-label"); name != "" {
				lines = append(lines, "picture "+name)
			} else if !has(d, "aria-hidden") {
				lines = append(lines, "picture without a name")
			}
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// golden holds text to a file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s: %s", name, diff)
	}
}

func TestGPUsPage(t *testing.T) {
	golden(t, "gpus.txt", outline(all(gpusPage(t, inventory(), hers()), "main")[0]))
}

// TestGPUsPageKeepsNames: what the visitor may not see is not in the page at all, not even in an attribute.
func TestGPUsPageKeepsNames(t *testing.T) {
	w := httptest.NewRecorder()
	if err := GPUsPage(w, someVisit(), GPUsView{Inventory: inventory(), Workloads: hers()}); err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"s-2", "j-9", "not for others"} {
		if strings.Contains(w.Body.String(), secret) {
			t.Errorf("%q is shown", secret)
		}
	}
	everybody := hers()
	everybody["s-2"] = spawner.Workload{ID: "s-2", Kind: spawner.Lab, Owner: "bob"}
	everybody["j-9"] = spawner.Workload{ID: "j-9", Kind: spawner.Job, Owner: "carol", Name: "scan"}
	said := text(gpusPage(t, inventory(), everybody))
	for _, name := range []string{"default server of bob", "lent to scan of carol", "not for others"} {
		if !strings.Contains(said, name) {
			t.Errorf("an administrator is not told %q", name)
		}
	}
}

func TestGPUsPageOfNothing(t *testing.T) {
	if said := text(all(gpusPage(t, gpu.Inventory{}, nil), "main")[0]); said != "GPUs This site has no GPUs." {
		t.Errorf("%q", said)
	}
	inv := inventory()
	inv.Problem, inv.System.Simulated = "<the driver does not answer>", true
	doc := gpusPage(t, inv, nil)
	said := text(all(doc, "main")[0])
	if !strings.Contains(said, "The driver cannot be asked: <the driver does not answer> What follows is of 20 November 2026, 12:00 UTC") {
		t.Errorf("a problem is not told: %q", said)
	}
	if !strings.Contains(said, "no such hardware exists") || len(slices.DeleteFunc(all(doc, "span"), func(n *html.Node) bool { return text(n) != "simulated" })) != len(inv.GPUs)+1 {
		t.Error("what is simulated is not marked")
	}
}

// TestGPUsPageKeepsToThePolicy: no inline styles, no handlers, nothing from elsewhere; every row that a picture shows
// is in words.
func TestGPUsPageKeepsToThePolicy(t *testing.T) {
	doc := gpusPage(t, inventory(), hers())
	for d := range doc.Descendants() {
		for _, a := range d.Attr {
			if strings.HasPrefix(a.Key, "on") || a.Key == "style" || (a.Key == "src" || a.Key == "href") && !strings.HasPrefix(a.Val, "/b/") {
				t.Errorf("<%s %s=%q>", d.Data, a.Key, a.Val)
			}
		}
	}
	ids := map[string]int{}
	for d := range doc.Descendants() {
		if id := attr(d, "id"); id != "" {
			if ids[id]++; ids[id] > 1 {
				t.Errorf("%q is there twice", id)
			}
		}
	}
	for _, s := range all(doc, "section") {
		if ids[attr(s, "aria-labelledby")] != 1 {
			t.Error("a GPU has no heading")
		}
	}
}

func TestBar(t *testing.T) {
	segments := func(s gpu.State) (found []segment) {
		if b := barOf(s); b != nil {
			return b.Segments
		}
		return nil
	}
	all := inventory().GPUs
	cut := segments(all[0])
	want := []segment{
		{1, "3g.71gb", "lent", 0, 50, true}, {2, "1g.18gb", "held", 50, 12.5, true}, {3, "1g.18gb", "ready", 62.5, 12.5, true},
		{4, "1g.18gb", "foreign", 75, 12.5, true}, {5, "1g.18gb", "quarantined", 87.5, 12.5, true},
	}
	if diff := cmp.Diff(want, cut); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]segment{{1, "mps:25%/20G", "held", 0, 14.3, true}, {2, "mps:25%/20G", "held", 14.3, 14.3, true}}, segments(all[2])); diff != "" {
		t.Error(diff)
	}
	if b := barOf(all[1]); b == nil || b.Label != "4 memory slots: nothing is cut out" || len(b.Ticks) != 3 {
		t.Errorf("an empty axis: %+v", b)
	}
	if barOf(all[3]) != nil || barOf(all[4]) != nil {
		t.Error("what has no size is drawn")
	}
	odd := all[2]
	odd.Device.Memory = 30 * gib
	if got := segments(odd); got[0].From+got[0].Width+got[1].Width > 100 {
		t.Errorf("it does not fit: %+v", got)
	}
	odd.Device.Memory = 0
	if got := segments(odd); got[0].Width != 0 {
		t.Errorf("a GPU without memory: %+v", got)
	}
	whole := gpu.State{Mode: gpu.Whole, Slices: []gpu.SliceState{{Holder: "s-1", Slice: gpu.Slice{Name: "whole"}}}}
	if got := segments(whole); len(got) != 1 || got[0].Width != 100 {
		t.Errorf("a whole GPU: %+v", got)
	}
}
