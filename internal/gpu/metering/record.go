package metering

import (
	"slices"
	"time"

	"slipway/internal/gpu"
)

// record is what is known of one workload's use of its slice.
type record struct {
	lease    gpu.Lease
	borrowed bool // the slice is another's
	device   gpu.Device
	last     sample
	at       time.Time // of last
	recent   []figure  // of the last minute
	peak     int64
	joules   float64
	metered  bool
	measured time.Duration // for which its memory is known
	watch    watch
	history  series
	released time.Time // zero: it is not
}

// figure is one measured percentage.
type figure struct {
	at time.Time
	sm float64
}

const window = time.Minute

func newRecord(l gpu.Lease, d gpu.Device) *record {
	return &record{
		lease: l, device: d, last: nothing("there is no measurement of it yet"), peak: unknown, history: newSeries(),
	}
}

// observe takes a sample.
func (r *record) observe(at time.Time, began time.Time, s sample, cfg Config, gap time.Duration) {
	if apart := at.Sub(r.at); r.last.memory >= 0 && s.memory >= 0 && apart > 0 && apart <= gap {
		r.measured += apart
	}
	r.last, r.at = s, at
	r.peak = max(r.peak, s.memory)
	if s.sm >= 0 {
		r.recent = append(r.recent, figure{at, s.sm})
	}
	r.trim(at)
	r.watch.note(at, s, cfg.BusySM, gap)
	r.history.add(uint32(max(at.Sub(began), 0)/time.Second), s.sm, s.memory)
}

// trim forgets figures that are older than the window, or of a time that has not come yet.
func (r *record) trim(now time.Time) {
	r.recent = slices.DeleteFunc(r.recent, func(f figure) bool { age := now.Sub(f.at); return age > window || age < 0 })
}

func (r *record) release(at time.Time) {
	r.released, r.recent, r.last, r.watch = at, nil, nothing("it has been released"), watch{}
}

// use returns what is known at now.
func (r *record) use(now time.Time, cfg Config, gap time.Duration) gpu.Use {
	s := r.last
	if r.released.IsZero() && !r.at.IsZero() && now.Sub(r.at) > gap {
		s = nothing("the last measurement is too old")
	}
	u := gpu.Use{Source: s.source, Unknown: s.why, Hint: r.hint(), Peak: known(r.peak), Memory: known(s.memory)}
	if s.sm >= 0 {
		u.SM = r.mean(s.sm)
	}
	if r.metered {
		joules := r.joules
		u.Energy = &joules
	}
	if since, ok := r.watch.idle(now, cfg.IdleAfter, gap); ok && !since.IsZero() {
		u.Idle = &since
	}
	return u
}

// mean is that of the last minute; last is the newest figure, which alone remains when they are far apart.
func (r *record) mean(last float64) *float64 {
	if len(r.recent) == 0 {
		return &last
	}
	sum := 0.0
	for _, f := range r.recent {
		sum += f.sm
	}
	mean := sum / float64(len(r.recent))
	return &mean
}

// hint is given only when there was time enough to see the most that is used.
func (r *record) hint() string {
	if r.measured < hintAfter && (r.released.IsZero() || r.measured < hintEnd) {
		return ""
	}
	return Enough(r.device, r.lease.Slice, r.peak)
}

func known(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}
