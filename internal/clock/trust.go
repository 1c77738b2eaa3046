package clock

import "time"

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
)

// Note is what a run of the service leaves to the next.
type Note struct {
	Seen  time.Time     `json:"seen"`            // what the clock said at the last look
	Doubt time.Duration `json:"doubt,omitempty"` // for how much longer it has to go evenly
}

// Doubtful is the note of a run whose own cannot be read.
func Doubtful() Note { return Note{Doubt: calmJump} }

// Trust watches the clock of this host, and says whether it is believed.
type Trust struct {
	wall  time.Time     // at the last look
	up    time.Duration // the same by the clock that nobody sets
	since time.Duration // since when it has gone evenly
	calm  time.Duration // for how long it has to
}

// Look reports whether the clock is believed, which says wall when the service has been up for so long. before is what
// was known when the service began.
func (t *Trust) Look(wall time.Time, up time.Duration, before Note) bool {
	drift := wall.Sub(t.wall) - (up - t.up)
	if t.wall.IsZero() {
		t.since, t.calm = up, max(calmStart, before.Doubt)
		drift = before.jumped(wall)
	}
	if drift > jump || drift < -jump {
		t.since, t.calm = up, calmJump
	}
	t.wall, t.up = wall, up
	return t.uncertainty() == 0
}

// Note returns what the next run of the service is to know.
func (t *Trust) Note() Note { return Note{Seen: t.wall, Doubt: t.uncertainty()} }

// EvenSince returns for how long the service had been up when the clock began to go evenly.
func (t *Trust) EvenSince() time.Duration { return t.since }

// jumped returns by how much the clock, which says wall at the start, must have been set since the last look.
func (n Note) jumped(wall time.Time) time.Duration {
	away := wall.Sub(n.Seen)
	switch {
	case n.Seen.IsZero(), away >= 0 && away <= longQuiet:
		return 0
	default:
		return away
	}
}

// uncertainty returns for how much longer the clock has to go evenly.
func (t *Trust) uncertainty() time.Duration { return max(0, t.calm-(t.up-t.since)) }
