package pin

import (
	"slices"
	"testing"
	"time"
)

func TestPins(t *testing.T) {
	now := time.Now()
	g, clock := &Set{}, func() time.Time { return now }
	gone := func() bool {
		removed, err := g.Unless("d", now, func() error { return nil })
		return removed && err == nil
	}
	if !gone() {
		t.Error("nobody had it")
	}
	first, second := g.Hold("d", clock), g.Hold("d", clock)
	first()
	first()
	if now = now.Add(24 * time.Hour); gone() {
		t.Error("released by one of two, twice")
	}
	second()
	if now = now.Add(Grace - 1); gone() {
		t.Error("released a moment ago")
	}
	if now = now.Add(1); !gone() || slices.ContainsFunc([]int{len(g.held), len(g.until)}, func(n int) bool { return n > 0 }) {
		t.Errorf("nobody has it any more: %+v, %+v", g.held, g.until)
	}
}
