package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// A clock is believed in what it says of days and months once it has gone evenly for a while: for an hour after the
// service has begun, for a day after it was seen to jump, also while the service was away, where a week or more counts
// as a jump. So one that is wrong for a while, ahead by a year, removes nothing that has not had its time; one that is
// set back lets things live longer, which harms nobody. A doubt outlives the service: only time in which it runs takes
// it away.
const (
	calmStart = time.Hour
	calmJump  = 24 * time.Hour
	jump      = time.Minute        // of the clock against the one that nobody sets
	longQuiet = 7 * 24 * time.Hour // while the service was away
	noteEvery = 10 * time.Minute
)

// clocks is the store's bucket of what is known of the clock of this host.
const clocks = "clock"

// clockNote is what a run of the service leaves to the next.
type clockNote struct {
	Seen  time.Time     `json:"seen"`            // what the clock said at the last look
	Doubt time.Duration `json:"doubt,omitempty"` // for how much longer it has to go evenly
}

// timekeeper watches the clock.
type timekeeper struct {
	wall  time.Time     // at the last look
	up    time.Duration // the same by the clock that nobody sets
	since time.Duration // since when it has gone evenly
	calm  time.Duration // for how long it has to
}

// look reports whether the clock is believed, which says wall when the service has been up for so long. before is what
// was known when the service began.
func (k *timekeeper) look(wall time.Time, up time.Duration, before clockNote) bool {
	drift := wall.Sub(k.wall) - (up - k.up)
	if k.wall.IsZero() {
		k.since, k.calm = up, max(calmStart, before.Doubt)
		drift = before.jumped(wall)
	}
	if drift > jump || drift < -jump {
		k.since, k.calm = up, calmJump
	}
	k.wall, k.up = wall, up
	return k.uncertainty() == 0
}

// jumped returns by how much the clock, which says wall at the start, must have been set since the last look.
func (n clockNote) jumped(wall time.Time) time.Duration {
	away := wall.Sub(n.Seen)
	switch {
	case n.Seen.IsZero(), away >= 0 && away <= longQuiet:
		return 0
	default:
		return away
	}
}

// uncertainty returns for how much longer the clock has to go evenly.
func (k *timekeeper) uncertainty() time.Duration { return max(0, k.calm-(k.up-k.since)) }

// noteClock saves what is known of the clock: at the start, when it has jumped, and from time to time.
func (m *Manager) noteClock(ctx context.Context, h *retention, up time.Duration) {
	if h.noted > 0 && up-h.noted < noteEvery && h.clock.since <= h.noted {
		return
	}
	n := clockNote{Seen: h.clock.wall, Doubt: h.clock.uncertainty()}
	if err := m.cfg.Store.Put(ctx, clocks, clocks, n); err != nil {
		m.log.Warn("cannot save what is known of the clock", "err", err)
		return
	}
	h.noted = max(up, 1)
}

// readClock reads what the run before has left; after one that has left nothing, the newest time on record is the last
// look.
func (m *Manager) readClock(ctx context.Context, newest time.Time) error {
	m.clock = clockNote{Seen: newest}
	for r, err := range m.cfg.Store.All(ctx, clocks) {
		if err != nil {
			return fmt.Errorf("read what is known of the clock: %w", err)
		}
		if err := json.Unmarshal(r.Value, &m.clock); err != nil {
			m.log.Warn("what is known of the clock cannot be read", "err", err)
			m.clock = clockNote{Doubt: calmJump}
		}
	}
	return nil
}
