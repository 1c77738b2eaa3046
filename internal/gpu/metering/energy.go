package metering

import (
	"time"

	"slipway/internal/gpu"
)

// meter is what is remembered of one GPU: its last reading, and what its energy counter has shown.
type meter struct {
	reading gpu.Reading
	at      time.Time
	fault   string // why the last reading failed; empty: it did not
	floor   float64
	metered bool // floor has been measured
}

// take notes a reading and gives the energy since the one before, in J, with what of it an idle GPU would have used; ok
// is false when the counter or the reading before are missing, or too old to say who was there.
//
// The floor is the lowest power that was ever seen of this GPU: an idle one does not tell us that it is.
func (m *meter) take(r gpu.Reading, at time.Time, gap time.Duration) (joules, floor float64, ok bool) {
	before, since := m.reading, at.Sub(m.at)
	first := m.at.IsZero() || m.fault != ""
	m.reading, m.at, m.fault = r, at, ""
	if first || since <= 0 || since > gap {
		return 0, 0, false
	}
	switch {
	case r.Energy >= 0 && before.Energy >= 0 && r.Energy >= before.Energy:
		joules = float64(r.Energy-before.Energy) / 1000
	case r.Power >= 0 && r.Energy < 0:
		joules = float64(r.Power) / 1000 * since.Seconds()
	default: // the counter began anew
		return 0, 0, false
	}
	if watts := joules / since.Seconds(); !m.metered || watts < m.floor {
		m.floor, m.metered = watts, true
	}
	return joules, m.floor * since.Seconds(), true
}

// portion is what one slice's part in the energy goes by.
type portion struct {
	sms       int
	load      float64 // processors' worth of work; unknown
	processes int
}

// share estimates each portion's energy: the floor by its part of the processors, whoever works; the rest by the work
// that was measured, others' included. Where the work of any is not known, the rest goes by the processors of those
// that have processes. What falls to nobody is left out.
func share(joules, floor float64, sms int, others float64, portions []portion) []float64 {
	loads, leased, total := make([]float64, len(portions)), 0, others
	measured := true
	for _, p := range portions {
		leased += p.sms
		measured = measured && (p.load >= 0 || p.processes == 0)
	}
	for i, p := range portions {
		switch {
		case p.processes == 0 || p.load == 0:
		case measured:
			loads[i] = p.load
		default:
			loads[i] = float64(p.sms)
		}
		total += loads[i]
	}
	shares := make([]float64, len(portions))
	for i, p := range portions {
		shares[i] = part64(
			floor, float64(p.sms), float64(max(sms, leased)),
		) + part64(max(joules-floor, 0), loads[i], total)
	}
	return shares
}

func part64(of, part, total float64) float64 {
	if total <= 0 {
		return 0
	}
	return of * part / total
}
