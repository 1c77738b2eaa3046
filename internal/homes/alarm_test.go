package homes

import (
	"maps"
	"testing"
)

func TestAlarmRingsOncePerMark(t *testing.T) {
	a := NewAlarm([]int{80, 95}, map[string]int{}, func(string, int) {})
	for i, step := range [][2]int{{50, 0}, {80, 80}, {85, 0}, {79, 0}, {81, 0}, {96, 95}, {94, 0}, {95, 0}, {93, 0}, {95, 95}, {70, 0}, {99, 95}, {100, 0}} {
		if got := a.See("x", step[0]); got != step[1] {
			t.Errorf("step %d: at %d %% it tells of %d, want %d", i, step[0], got, step[1])
		}
	}
}

// TestAlarmOutlivesTheService: what was told is kept as it changes, and is not told by the next one.
func TestAlarmOutlivesTheService(t *testing.T) {
	kept := map[string]int{}
	keep := func(what string, mark int) {
		if kept[what] = mark; mark == 0 {
			delete(kept, what)
		}
	}
	first := NewAlarm([]int{80, 95}, map[string]int{}, keep)
	for what, percent := range map[string]int{"alice home": 97, "bob home": 85, "carol home": 10} {
		first.See(what, percent)
	}
	if want := map[string]int{"alice home": 95, "bob home": 80}; !maps.Equal(kept, want) {
		t.Errorf("kept %v, want %v", kept, want)
	}
	next := NewAlarm([]int{80, 95}, maps.Clone(kept), keep)
	for _, step := range []struct {
		what          string
		percent, want int
	}{{"alice home", 97, 0}, {"bob home", 96, 95}, {"alice home", 10, 0}} {
		if got := next.See(step.what, step.percent); got != step.want {
			t.Errorf("%+v: %d", step, got)
		}
	}
	if want := map[string]int{"bob home": 95}; !maps.Equal(kept, want) {
		t.Errorf("kept %v, want %v", kept, want)
	}
}
