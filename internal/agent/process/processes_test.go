package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

func TestParseStat(t *testing.T) {
	for name, want := range map[string]Stat{
		"ipykernel":   {Pid: 1, own: 24 + 3},
		"shell":       {Pid: 1, own: 3, waited: 20 + 1},
		"parentheses": {Pid: 8, Parent: 1}, // a program of the name "a) S 9 (b c"
		"hostile":     {Pid: 42, Parent: 7, own: 3, waited: 7},
		"cut":         {},
		"empty":       {},
		"negative":    {},
	} {
		b, err := os.ReadFile(filepath.Join("testdata", "stat", name))
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := parseStat(b); got != want || ok != (want != Stat{}) {
			t.Errorf("%s: %+v, %v", name, got, ok)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("1 (a) b) S 0 1 1 0 -1 4194304 77 0 1 0 1 2 3 4 20 0 1 0 5"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, ok := parseStat(b); ok && (p.Pid < 0 || p.Parent < 0) {
			t.Errorf("%+v", p)
		}
	})
}

func TestUsed(t *testing.T) {
	list := []Stat{
		{Pid: 9, Parent: 8, own: 1000, waited: 10}, // below the app
		{Pid: 1, Parent: 0, own: 5, waited: 7},
		{Pid: 5, Parent: 1, own: 50, waited: 3}, // the agent, if not the first
		{Pid: 8, Parent: 5, own: 100},           // the app
		{Pid: 20, Parent: 1, own: 10000},        // somebody's
		{Pid: 30, Parent: 30, own: 1},           // nonsense does not lead round in circles
	}
	for _, test := range []struct {
		self int
		all  bool
		want int64
	}{
		{1, true, 7 + 1000 + 10 + 50 + 3 + 100 + 10000 + 1},
		{5, false, 3 + 100 + 1000 + 10},
		{8, false, 1010},
		{30, false, 0},
		{99, false, 0},
	} {
		if got := used(list, test.self, test.all); got != test.want {
			t.Errorf("self %d, all %v: %d, want %d", test.self, test.all, got, test.want)
		}
	}
}

func TestAlone(t *testing.T) {
	const machine, container = "pid:[4026531836]", "pid:[4026532180]"
	for _, test := range []struct {
		space       string
		pid, parent int
		want        bool
	}{
		{container, 1, 0, true},   // Docker
		{container, 13, 1, true},  // Apptainer --pid
		{container, 13, 7, false}, // Apptainer on a node that is a container
		{machine, 13, 7, false},   // Apptainer without
		{machine, 13, 1, false},   // its parent has ended
		{"", 13, 1, false},        // nothing is known
	} {
		proc := t.TempDir()
		if err := os.MkdirAll(filepath.Join(proc, "self", "ns"), 0o755); err != nil {
			t.Fatal(err)
		}
		if test.space != "" {
			if err := os.Symlink(test.space, filepath.Join(proc, "self", "ns", "pid")); err != nil {
				t.Fatal(err)
			}
		}
		if got := Alone(proc, test.pid, test.parent); got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
}

// The count goes on from where it was, whatever the kernel's books lose.
func TestMeter(t *testing.T) {
	proc := t.TempDir()
	set := func(ps ...Stat) {
		old, _ := filepath.Glob(proc + "/*")
		for _, d := range old {
			_ = os.RemoveAll(d)
		}
		for _, p := range ps {
			dir := filepath.Join(proc, strconv.Itoa(p.Pid))
			text := fmt.Sprintf("%d (x) S %d 1 1 0 -1 0 0 0 0 0 %d 0 %d 0 20 0 1 0 1\n", p.Pid, p.Parent, p.own, p.waited)
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "stat"), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	self := Stat{Pid: 1, own: 5000}
	set(self, Stat{Pid: 2, Parent: 1, own: 200}) // was there before
	m := NewCPUMeter(proc, 1, true)
	for i, step := range []struct {
		list []Stat
		want float64
	}{
		{[]Stat{self, {Pid: 2, Parent: 1, own: 200}}, 0},
		{[]Stat{self, {Pid: 2, Parent: 1, own: 300}, {Pid: 3, Parent: 2, own: 50}}, 1.5},
		{[]Stat{self, {Pid: 2, Parent: 1, own: 300, waited: 60}}, 1.6},        // 3 has ended
		{[]Stat{{Pid: 1, own: 9000, waited: 370}}, 1.7},                       // 2 too; the agent's own does not count
		{[]Stat{{Pid: 1, waited: 370}, {Pid: 4, Parent: 1, own: 1000}}, 11.7}, //
		{[]Stat{{Pid: 1, waited: 370}}, 11.7},                                 // 4 has ended, and nobody was told
		{[]Stat{{Pid: 1, waited: 370}, {Pid: 5, Parent: 9, own: 30}}, 12},     // an orphan
		{nil, 12}, //
	} {
		set(step.list...)
		if got := m.Seconds(); got != step.want {
			t.Errorf("step %d: %v s, want %v", i, got, step.want)
		}
	}
}

func BenchmarkMeter(b *testing.B) {
	n := 0
	for b.Loop() {
		list := List("/proc")
		n = len(list)
		_ = used(list, 1, true)
	}
	b.ReportMetric(float64(n), "processes")
}
