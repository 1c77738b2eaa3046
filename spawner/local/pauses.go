package local

import "time"

// pauses are between two looks at what is over soon, mostly. They grow by half up to the longest: on a host whose
// processors are all in use, what is waited for takes hundreds of milliseconds, and who looks every two takes more of
// them than what is looked at.
type pauses struct{ now, longest time.Duration }

// soon are the pauses for what mostly takes some milliseconds.
func soon() pauses { return pauses{time.Millisecond, 32 * time.Millisecond} }

// next begins a pause and returns its end.
func (p *pauses) next() <-chan time.Time {
	end := time.After(p.now)
	p.now = min(p.now+p.now/2, p.longest)
	return end
}
