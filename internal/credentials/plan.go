package credentials

import (
	"encoding/binary"
	"hash/fnv"
	"time"

	"slipway/internal/backoff"
)

// When tokens are refreshed. All of it is a function of the record and the clock, so that a restart of the service
// changes nothing.
const (
	earliest  = 0.5 // of a token's life
	latest    = 0.8
	idleEvery = 24 * time.Hour   // of who has no workload: so that the refresh token does not end for want of use
	catchUp   = 10 * time.Minute // over which, at the most, what was missed while the service was away is spread
	hurry     = 30 * time.Second // the same at the least
	firstWait = 30 * time.Second // after a try that failed
	longWait  = 10 * time.Minute // after many
)

// due returns when something is to be done for a record's token: it is refreshed, or what its issuer owes is asked for;
// false: nothing is. born is when the service began.
func due(r record, watched bool, born time.Time) (time.Time, bool) {
	at, ok := refreshDue(r, watched, born)
	if ok && watched && r.Owed.is() {
		if again := r.Owed.Tried.Add(backoff.Delay(firstWait, longWait, r.Owed.Tries, spread(r))); again.Before(at) {
			at = again
		}
	}
	return at, ok
}

// refreshDue returns when a record's token is to be refreshed; false: not at all.
func refreshDue(r record, watched bool, born time.Time) (time.Time, bool) {
	if r.Kind != Token || r.Refused || r.Removed {
		return time.Time{}, false
	}
	part := spread(r)
	if r.Tries > 0 {
		return r.Tried.Add(backoff.Delay(firstWait, longWait, r.Tries, part)), true
	}
	life := r.Ends.Sub(r.Issued)
	at := r.Issued.Add(scale(life, earliest+(latest-earliest)*part))
	if !watched {
		at = latestOf(at, r.Issued.Add(scale(idleEvery, earliest+(latest-earliest)*part)))
		if half := r.Issued.Add(r.Until.Sub(r.Issued) / 2); !r.Until.IsZero() && half.Before(at) {
			at = half
		}
	}
	if at.Before(born) { // missed: many may have been
		left := min(max(r.Ends.Sub(born)/2, hurry), catchUp)
		at = born.Add(scale(left, part))
	}
	return at, true
}

func scale(d time.Duration, by float64) time.Duration { return time.Duration(float64(d) * by) }

func latestOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// spread returns a number in [0, 1) that is the user's own, and another after each refresh: users who came together do
// not stay together.
func spread(r record) float64 {
	h := fnv.New64a()
	room := append(make([]byte, 0, 128), r.Name...)
	room = append(append(room, ' '), r.Principal...)
	room = binary.LittleEndian.AppendUint64(room, uint64(r.Issued.UnixNano()))
	_, _ = h.Write(binary.LittleEndian.AppendUint64(room, uint64(r.Tries)))
	v := h.Sum64()
	v ^= v >> 33 // FNV's upper bits differ little between keys that differ at their end
	v *= 0xff51afd7ed558ccd
	v ^= v >> 33
	return float64(v>>11) / (1 << 53)
}
