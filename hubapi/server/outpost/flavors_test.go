package outpost

import (
	"fmt"
	"testing"
	"time"
)

func TestRuntimeOf(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "", 48 * time.Hour: "days 2", 25 * time.Hour: "hours 25", 90 * time.Minute: "minutes 90", time.Second: "minutes 1", 90*time.Minute + time.Second: "minutes 90",
	} {
		got := ""
		for unit, n := range runtimeOf(d) {
			got = fmt.Sprint(unit, " ", n)
		}
		if got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}
