package pool

import (
	"os"
	"path/filepath"
	"testing"

	"slipway/spawner/htcondor/classad"
)

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// captured returns the slots that a file of testdata/ads holds: idle, busy and divided as HTCondor 23.9 printed them,
// later by hand.
func captured(t testing.TB, name string) []slot {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "ads", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	ads, err := classad.ParseAll(b)
	if err != nil {
		t.Fatal(err)
	}
	return slotsOf(ads)
}

// TestWhatCannotBeJudged has a condition decided by what is known, and left open by what is not.
func TestWhatCannotBeJudged(t *testing.T) {
	job := classad.NewPart()
	slot := classad.New()
	for text, want := range map[string]verdict{
		"TARGET.Project == \"cms\"": unknown, "false && TARGET.Project == \"cms\"": fails, "TARGET.Project == \"cms\" && false": fails,
		"true || TARGET.Project": fits, "undefined || TARGET.Project": unknown, "unheardOf(1)": unknown, "undefined": fails, "error": fails,
	} {
		c := required("", text, "")
		c.own = true
		if got := c.judge(slot, job); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
	if required("", "1 +", "").judge(slot, job) != unknown {
		t.Error("what cannot be read is judged")
	}
}

func TestSlots(t *testing.T) {
	idle, busy := captured(t, "idle"), captured(t, "busy")
	if len(idle) != 1 || len(busy) != 1 {
		t.Fatalf("%d and %d slots: those of jobs are taken for more", len(idle), len(busy))
	}
	if n, m := len(idle[0].gpus()), len(idle[0].available()); n != 8 || m != 8 {
		t.Errorf("idle: %d GPUs, %d available", n, m)
	}
	if n, m := len(busy[0].gpus()), len(busy[0].available()); n != 8 || m != 6 {
		t.Errorf("busy: %d GPUs, %d available", n, m)
	}
	empty := slot{busy[0].empty()}
	if cpus, _ := empty.Number("Cpus"); cpus != 8 || len(empty.available()) != 8 {
		t.Errorf("empty: %v CPUs, %d GPUs available", cpus, len(empty.available()))
	}
	if cpus, _ := busy[0].Number("Cpus"); cpus != 4 {
		t.Errorf("to look at it as empty has changed it: %v CPUs", cpus)
	}
}

func FuzzAds(f *testing.F) {
	for _, name := range []string{"idle", "busy", "divided", "later"} {
		b, err := os.ReadFile(filepath.Join("testdata", "ads", name+".json"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		ads, err := classad.ParseAll(b)
		if err != nil {
			return
		}
		slots := slotsOf(ads)
		explanation(Demand{GPU: asked(t, "any,capability>=8.0,memory>=4G")}, slots)
		catalogueOf(slots, "site")
	})
}
