package sched

import (
	"testing"
	"time"

	"slipway/spawner"
)

func TestHoursStayAsOldAsTheyAreWhenTheClockIsSet(t *testing.T) {
	alice := spawner.Principal{Hub: "hub", User: "alice"}
	for name, jump := range map[string]time.Duration{"not": 0, "a year ahead": 8760 * time.Hour, "a year back": -8760 * time.Hour, "a little": 10 * time.Minute} {
		h := newHours()
		h.count(noon, 0)
		h.add(alice, noon, 3)
		h.count(noon.Add(10*time.Hour), 10*time.Hour)
		later := noon.Add(11*time.Hour + jump)
		h.count(later, time.Hour)
		if got := h.within(alice, 24*time.Hour, later); got != 3 {
			t.Errorf("set %s: %g hours of the day", name, got)
		}
		if got := h.within(alice, 8*time.Hour, later); got != 0 {
			t.Errorf("set %s: %g hours of the last ones", name, got)
		}
		if got := h.since(later.Add(-100*time.Hour), later); got != 0 {
			t.Errorf("set %s: %s are counted twice", name, got)
		}
	}
}

func TestHoursOfATimeToComeCountNow(t *testing.T) {
	alice := spawner.Principal{Hub: "hub", User: "alice"}
	h := newHours()
	h.add(alice, noon.Add(1000*time.Hour), 2) // saved before the clock was set back, while the service was down
	h.count(noon, 0)
	if got := h.within(alice, time.Hour, noon); got != 2 {
		t.Errorf("%g", got)
	}
	if free := h.below(alice, 24*time.Hour, 2, noon); free.Sub(noon) > 24*time.Hour || free.Before(noon) {
		t.Errorf("free from %s", free)
	}
	if h.count(noon.Add(MostWindow+time.Hour), MostWindow+time.Hour); len(h.of) != 0 {
		t.Errorf("kept: %v", h.of)
	}
}

func TestTimeWhileTheServiceWasDownIsBounded(t *testing.T) {
	h := newHours()
	if got := h.since(noon.Add(-1000*time.Hour), noon); got != mostAway {
		t.Errorf("%s", got)
	}
	if got := h.since(noon.Add(time.Hour), noon); got != 0 {
		t.Errorf("held since a time to come: %s", got)
	}
}
