package progress

import (
	"testing"
	"time"
)

// TestTheLongPauseIsToldAhead, and not when it is there.
func TestTheLongPauseIsToldAhead(t *testing.T) {
	var m Meter
	m.At(Scanning, 5_000_000, 1, 1)
	m.Expect(5_000_000, 30*time.Second)
	m.At(Reading, 7, 7, 0)
	m.At(Settling, 8, 8, 0)
	for _, p := range m.since(0) {
		if ahead := p.Stage == Reading; ahead != (p.Pause == 30*time.Second && p.Changed == 5_000_000) || !ahead && p.Pause != 0 {
			t.Errorf("%+v", p)
		}
	}
}
