package placement

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/gpu"
)

// The models of GPU that are tested.
func tables(t testing.TB) map[string]*Table {
	return map[string]*Table{"four": table(t, 4, four()), "eight": table(t, 8, media()), "twelve": table(t, 12, twelve())}
}

// invariant finds what is wrong with a GPU that is cut.
func invariant(n *Node, held []gpu.Slice) string {
	var busy Mask
	engines := map[string]int{}
	for _, s := range held {
		m := Span(s.Placement)
		if busy&m != 0 {
			return "two slices overlap"
		}
		busy |= m
		engines[kin(s.Profile)]++
	}
	for _, r := range n.Ready {
		if busy&Span(r.Placement) != 0 {
			return "a ready instance overlaps another"
		}
		busy |= Span(r.Placement)
		engines[kin(r.Profile)]++
	}
	for _, s := range n.Table.shapes {
		if s.limit > 0 && engines[s.kin] > s.limit {
			return "more of " + s.Name + " than there may be"
		}
	}
	return ""
}

// Slices come and go at random; at no time do two overlap, are more there than may be, or does Count say what Find does
// not do.
func TestNothingEverOverlaps(t *testing.T) {
	for name, c := range tables(t) {
		for _, policy := range Policies() {
			dice := rand.New(rand.NewPCG(1, 2))
			e, nodes, held := New(policy, 0.1), cuttable(c, 3), make([][]gpu.Slice, 3)
			for step := range 4000 {
				r := mig(c.shapes[dice.IntN(len(c.shapes))].Name)
				e.Note(r)
				free, most := Count(nodes, r)
				i, s := e.Find(nodes, r)
				if (i >= 0) != (free > 0) || free > most {
					t.Fatalf("%s, %s, step %d: %d of %d of %s free, and it is placed on %d: %+v", name, policy, step, free, most, r, i, nodes)
				}
				if i >= 0 {
					nodes[i].Take(s)
					held[i] = append(held[i], s)
					if after, _ := Count(nodes, r); after >= free {
						t.Fatalf("%s, %s: %d of %s free, then %d", name, policy, free, r, after)
					}
				}
				if i = dice.IntN(3); i >= 0 && len(held[i]) > 0 && dice.IntN(3) > 0 {
					k := dice.IntN(len(held[i]))
					nodes[i].Give(held[i][k])
					held[i] = slices.Delete(held[i], k, k+1)
				}
				for i := range nodes {
					if wrong := invariant(&nodes[i], held[i]); wrong != "" {
						t.Fatalf("%s, %s, step %d: %s: %+v, held %v", name, policy, step, wrong, nodes[i], held[i])
					}
				}
			}
		}
	}
}

// Count is how often Find succeeds in a row, in every mode.
func TestCountIsWhatCanBeHad(t *testing.T) {
	c := table(t, 8, media())
	mps := Node{UUID: "m", Model: "NVIDIA L40S", Mode: gpu.MPS, Tier: gpu.Process, Memory: 48 << 30, SMs: 142, AtOnce: 5}
	equal := mps
	equal.EqualShares = true
	half := equal
	half.Take(gpu.Slice{Mode: gpu.MPS, Percent: 25, Memory: 10 << 30})
	shared := Node{UUID: "s", Model: "NVIDIA L40S", Mode: gpu.Shared, Tier: gpu.None, Memory: 48 << 30, SMs: 142, AtOnce: 4}
	static := cuttable(c, 1)[0]
	static.Static, static.Ready = true, []Ready{{"3g.71gb", gpu.Placement{Start: 4, Size: 4}}, {"1g.18gb", gpu.Placement{Start: 0, Size: 1}}}
	nodes := append(cuttable(c, 2), mps, equal, half, shared, static, Node{UUID: "w", Mode: gpu.Whole, Tier: gpu.Hardware})
	nodes[1].Busy, nodes[1].Cut = 0b11, []string{"2g.35gb"}
	for text, want := range map[string][2]int{
		"1g": {13, 15}, "1g.18gb+me": {2, 2}, "1g+me": {2, 2}, "2g.35gb": {5, 6}, "3g.71gb": {4, 5}, "4g": {1, 2}, "7g.141gb": {1, 2}, "2g.20gb": {0, 0},
		"mps:25%/10G": {11, 12}, "mps:30%/10G": {6, 9}, "mps:10%/24G": {4, 6}, "mps:100%/48G": {2, 3}, "mps:10%/49G": {0, 0}, "mps:1%/1M": {10, 15},
		"shared/10G": {4, 4}, "shared/20G": {2, 2}, "shared": {4, 4}, "whole": {1, 1}, "shared/49G": {0, 0},
	} {
		r, err := gpu.ParseRequest(text)
		if err != nil {
			t.Fatal(err)
		}
		r.Group = "higgs"
		free, most := Count(nodes, r)
		if got := [2]int{free, most}; got != want {
			t.Errorf("of %s there are %v, want %v", text, got, want)
		}
		for _, policy := range Policies() {
			had, now := 0, clone(nodes)
			for e := New(policy, 0); ; had++ {
				i, s := e.Find(now, r)
				if i < 0 {
					break
				}
				now[i].Take(s)
			}
			if had != free {
				t.Errorf("%s: %d of %s can be had, Count says %d", policy, had, text, free)
			}
		}
		if never := Never(nodes, r); (never == "") != (most > 0) {
			t.Errorf("%s: of %d there can be never one: %q", text, most, never)
		}
	}
}

func clone(nodes []Node) []Node {
	c := slices.Clone(nodes)
	for i := range c {
		c[i].Ready, c[i].Cut = slices.Clone(c[i].Ready), slices.Clone(c[i].Cut)
	}
	return c
}

func TestTakeAndGiveAreInverse(t *testing.T) {
	for _, n := range []Node{
		{Mode: gpu.MPS, AtOnce: 4, Memory: 1 << 30, EqualShares: true}, {Mode: gpu.Shared, AtOnce: 4, Memory: 1 << 30}, {Mode: gpu.Whole},
	} {
		before := n
		s := gpu.Slice{Mode: n.Mode, Percent: 10, Memory: 1 << 20, Group: "higgs"}
		n.Take(s)
		n.Take(s)
		if n.Held != 2 {
			t.Errorf("%s: %d held", n.Mode, n.Held)
		}
		n.Give(s)
		n.Give(s)
		if diff := cmp.Diff(before, n, cmp.AllowUnexported(Table{})); diff != "" {
			t.Errorf("%s: %s", n.Mode, diff)
		}
	}
}

func TestReadySlicesAreUsed(t *testing.T) {
	c := table(t, 8, eight())
	for _, policy := range Policies() {
		nodes := cuttable(c, 1)
		nodes[0].Ready = []Ready{{"1g.18gb", gpu.Placement{Start: 5, Size: 1}}, {"2g.35gb", gpu.Placement{Start: 2, Size: 2}}}
		nodes[0].Busy = 1 << 6
		if _, s := New(policy, 0).Find(nodes, mig("1g.18gb")); s.Placement.Start != 5 {
			t.Errorf("%s makes an instance at %d, and one is ready at 5", policy, s.Placement.Start)
		}
		// Ready ones in the way do not keep a slice from being made.
		if i, s := New(policy, 0).Find(nodes, mig("4g.71gb")); i != 0 || s.Placement != (gpu.Placement{Start: 0, Size: 4}) {
			t.Errorf("%s places 4g at %d %v", policy, i, s.Placement)
		}
		nodes[0].Static = true
		if i, _ := New(policy, 0).Find(nodes, mig("4g.71gb")); i >= 0 {
			t.Errorf("%s changes a static layout", policy)
		}
		if i, s := New(policy, 0).Find(nodes, mig("2g")); i != 0 || s.Placement.Start != 2 {
			t.Errorf("%s does not find what is ready in a static layout", policy)
		}
	}
}

func TestHeadroomSparesEmptyGPUs(t *testing.T) {
	nodes := cuttable(table(t, 8, eight()), 2)
	nodes[1].Busy = 0b01000110 // room is left, of the worst kind
	if i, _ := New(Frag, 1).Find(nodes, mig("1g")); i != 1 {
		t.Error("an empty GPU is cut into while another has room")
	}
	if i, _ := New(Frag, 1).Find(nodes, mig("4g")); i != 0 {
		t.Error("headroom refuses what only an empty GPU can give")
	}
	l40s := []Node{
		{UUID: "0", Mode: gpu.MPS, Tier: gpu.Process, Memory: 10 << 30, AtOnce: 8, EqualShares: true},
		{UUID: "1", Mode: gpu.MPS, Tier: gpu.Process, Memory: 20 << 30, AtOnce: 8, Held: 1, PercentHeld: 1, MemoryHeld: 1 << 20},
	}
	if i, _ := New(Pack, 1).Find(l40s, gpu.Request{Mode: gpu.MPS, Percent: 50, Memory: 1 << 30}); i != 1 {
		t.Error("an empty GPU is given to MPS while another has room")
	}
}

func TestGroupsStayApart(t *testing.T) {
	nodes := []Node{{UUID: "a", Mode: gpu.Shared, Tier: gpu.None, Memory: 1 << 30, AtOnce: 3}, {UUID: "b", Mode: gpu.Shared, Tier: gpu.None, Memory: 1 << 30, AtOnce: 3}}
	e := New(Frag, 0)
	for _, step := range []struct {
		group string
		want  int
	}{{"higgs", 0}, {"top", 1}, {"higgs", 0}, {"", -1}, {"dark", -1}, {"higgs", 0}, {"higgs", -1}, {"top", 1}} {
		i, s := e.Find(nodes, gpu.Request{Mode: gpu.Shared, Group: step.group})
		if i != step.want {
			t.Fatalf("%q is placed on %d, want %d", step.group, i, step.want)
		}
		if i >= 0 {
			nodes[i].Take(s)
		}
	}
	alone := []Node{{UUID: "a", Mode: gpu.Shared, Tier: gpu.None, Memory: 1 << 30, AtOnce: 3}}
	i, s := e.Find(alone, gpu.Request{Mode: gpu.Shared})
	if i != 0 {
		t.Fatal("who has no group gets no empty GPU")
	}
	alone[0].Take(s)
	if i, _ := e.Find(alone, gpu.Request{Mode: gpu.Shared}); i >= 0 {
		t.Error("two without a group are taken to trust one another")
	}
}

func TestSlicesSayWhatTheyAre(t *testing.T) {
	c := table(t, 8, eight())
	nodes := []Node{
		{UUID: "GPU-m", Model: "NVIDIA H200", Mode: gpu.MIG, Tier: gpu.Hardware, Memory: 141 << 30, SMs: 132, Table: c},
		{UUID: "GPU-p", Model: "NVIDIA L40S", Mode: gpu.MPS, Tier: gpu.Cgroup, Memory: 48 << 30, SMs: 142, AtOnce: 8},
		{UUID: "GPU-s", Model: "NVIDIA L40S", Mode: gpu.Shared, Tier: gpu.None, Memory: 48 << 30, SMs: 142, AtOnce: 4},
		{UUID: "GPU-w", Model: "NVIDIA A100", Mode: gpu.Whole, Tier: gpu.Hardware, Memory: 80 << 30, SMs: 108},
	}
	for text, want := range map[string]gpu.Slice{
		"2g": {GPU: "GPU-m", Model: "NVIDIA H200", Mode: gpu.MIG, Name: "2g.35gb", Profile: "2g.35gb", Placement: gpu.Placement{Start: 4, Size: 2},
			Memory: 35 << 30, SMs: 32, Tier: gpu.Hardware},
		"mps:25%/20G": {GPU: "GPU-p", Model: "NVIDIA L40S", Mode: gpu.MPS, Name: "mps:25%/20G", Percent: 25, Memory: 20 << 30, SMs: 35, Tier: gpu.Cgroup},
		"shared":      {GPU: "GPU-s", Model: "NVIDIA L40S", Mode: gpu.Shared, Name: "shared", Memory: 12 << 30, SMs: 142, Tier: gpu.None, Group: "higgs"},
		"shared/40G":  {GPU: "GPU-s", Model: "NVIDIA L40S", Mode: gpu.Shared, Name: "shared/40G", Memory: 40 << 30, SMs: 142, Tier: gpu.None, Group: "higgs"},
		"whole":       {GPU: "GPU-w", Model: "NVIDIA A100", Mode: gpu.Whole, Name: "whole", Memory: 80 << 30, SMs: 108, Tier: gpu.Hardware},
	} {
		r, _ := gpu.ParseRequest(text)
		r.Group = "higgs"
		i, got, lacks := New(Frag, 0).Place(nodes, r)
		if diff := cmp.Diff(want, got); diff != "" || lacks != "" || i < 0 {
			t.Errorf("%s: %d %q %s", text, i, lacks, diff)
		}
	}
}

func TestBadTablesAreRefused(t *testing.T) {
	for name, f := range map[string]func() (*Table, error){
		"no slots":     func() (*Table, error) { return NewTable(0, eight()) },
		"too many":     func() (*Table, error) { return NewTable(17, eight()) },
		"off the axis": func() (*Table, error) { return NewTable(7, eight()) },
		"no profiles":  func() (*Table, error) { return NewTable(8, nil) },
		"twice":        func() (*Table, error) { return NewTable(8, append(eight(), eight()[0])) },
		"no placement": func() (*Table, error) { return NewTable(8, []gpu.Profile{{Name: "1g.5gb", Compute: 1}}) },
		"two sizes": func() (*Table, error) {
			return NewTable(8, []gpu.Profile{{Name: "1g.5gb", Compute: 1, Placements: []gpu.Placement{{Size: 1}, {Start: 1, Size: 2}}}})
		},
	} {
		if _, err := f(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestLayouts(t *testing.T) {
	c := table(t, 8, media())
	at, why := c.LayOut([]string{"1g.18gb", "1g", "2g", "3g.71gb"})
	want := []gpu.Placement{{Start: 0, Size: 1}, {Start: 1, Size: 1}, {Start: 2, Size: 2}, {Start: 4, Size: 4}}
	if diff := cmp.Diff(want, at); diff != "" || why != "" {
		t.Errorf("%s %s", why, diff)
	}
	for _, layout := range [][]string{{"4g", "4g"}, {"1g.10gb"}, {"1g+me", "1g+me"}, {"7g", "1g"}} {
		if at, why := c.LayOut(layout); why == "" {
			t.Errorf("%v lies at %v", layout, at)
		}
	}
}

// On an axis of 12 slots two profiles with the same engines count together.
func TestEnginesAreCounted(t *testing.T) {
	nodes := cuttable(table(t, 12, twelve()), 1)
	e := New(Frag, 0)
	_, s := e.Find(nodes, mig("1g+me"))
	nodes[0].Take(s)
	if i, _ := e.Find(nodes, mig("1g+me.all")); i >= 0 {
		t.Error("two instances have the media engines")
	}
	if i, _ := e.Find(nodes, mig("1g-me")); i < 0 {
		t.Error("an instance without media engines has no place beside one with them")
	}
	nodes[0].Give(s)
	if i, again := e.Find(nodes, mig("1g+me")); i < 0 || again.Placement != s.Placement {
		t.Error("the ready instance with the media engines is not used again")
	}
}
