package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const source = `package p

func Least(a, b int, err error) (int, bool) {
	if err != nil {
		panic("no" + "thing")
	}
	switch {
	case a <= b && !(a == 7):
		return a, true
	}
	return b, false
}
`

const tests = `package p

import "testing"

func TestLeast(t *testing.T) {
	for a := range 3 {
		if n, _ := Least(a, 2, nil); n != a {
			t.Error(n)
		}
	}
	if n, _ := Least(3, 2, nil); n != 2 {
		t.Error(n)
	}
}
`

// TestMutants has a small package tried: what no test notices is named, unless it is known that none can; and what is
// known is, only while it is so.
func TestMutants(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"go.mod": "module m\n\ngo 1.26\n", "p/p.go": source, "p/p_test.go": tests,
		"survivors.txt": "# why\np/p.go <= -> < | case a <= b && !(a == 7): | the same number\np/p.go x -> y | gone | x\n",
	} {
		_ = os.MkdirAll("p", 0o755)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	known, err := readSurvivors("survivors.txt")
	if err != nil {
		t.Fatal(err)
	}
	p := plan{dir: "p"}
	all, err := p.mutants()
	if err != nil {
		t.Fatal(err)
	}
	said, err := trials(t.Context(), p, all)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	judge(all, said, known).print(&out, "p")
	want := `p                       66 %: 4 noticed, 2 not, 1 cannot be
  lived: p/p.go:9:13 true -> false | return a, true
  lived: p/p.go:11:12 false -> true | return b, false
  in survivors.txt, but none: p/p.go x -> y | gone
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestSurvivorsHaveReasons(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("survivors.txt", []byte("p/p.go < -> <= | if a < b {\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readSurvivors("survivors.txt"); err == nil {
		t.Error("a survivor without a reason is taken")
	}
}

// TestPlan: the files that are planned are there.
func TestPlan(t *testing.T) {
	t.Chdir("../../..")
	plans, err := readPlan("deploy/dev/mutants/plan.txt")
	if err != nil || len(plans) == 0 {
		t.Fatal(plans, err)
	}
	for _, p := range plans {
		if _, err := p.mutants(); err != nil {
			t.Errorf("%s: %v", p.dir, err)
		}
	}
	if _, err := readSurvivors("deploy/dev/mutants/survivors.txt"); err != nil {
		t.Error(err)
	}
}
