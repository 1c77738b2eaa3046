package testenv

import "testing"

func TestLong(t *testing.T) {
	for _, long := range []bool{false, true} {
		t.Setenv(longMode, map[bool]string{true: "1"}[long])
		if got, want := Rounds(2, 60), map[bool]int{false: 2, true: 60}[long]; got != want {
			t.Errorf("long %v: %d rounds", long, got)
		}
		if got, want := len(Some("a", "b", "c")), map[bool]int{false: 2, true: 3}[long]; got != want {
			t.Errorf("long %v: %d of three cases", long, got)
		}
		ran := false
		t.Run("measure", func(t *testing.T) {
			Long(t)
			ran = true
		})
		if ran != long {
			t.Errorf("long %v: what is of the long mode runs: %v", long, ran)
		}
	}
}
