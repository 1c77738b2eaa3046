package fleet

import (
	"context"
	"fmt"
	"time"

	"slipway/internal/gpu"
	"slipway/internal/gpu/placement"
)

// quarantine keeps a place from being leased until its time is over. Its record stays for as long again, so that a
// place that fails once more is kept out for longer.
type quarantine struct {
	Slice gpu.Slice `json:"slice"`
	Why   string    `json:"why"`
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	Times int       `json:"times"`
	Stuck bool      `json:"stuck,omitempty"` // an instance could not be destroyed: over when it is gone
	// Lifted is set when an administrator has ended it: the next failure counts as the first.
	Lifted bool `json:"lifted,omitempty"`
}

// longest is how many times the first quarantine the later ones may last at most.
const longest = 16

func (q quarantine) active(now time.Time) bool { return !q.Lifted && now.Before(q.Until) }

// faded reports whether the place may start anew.
func (q quarantine) faded(now time.Time) bool { return !now.Before(q.Until.Add(q.Until.Sub(q.Since))) }

// after returns the quarantine that follows q, the zero one when there was none lately.
func (q quarantine) after(s gpu.Slice, why string, stuck bool, now time.Time, first time.Duration) quarantine {
	times := 1
	if q.Times > 0 && !q.Lifted && !q.faded(now) {
		times = q.Times + 1
	}
	lasts := first * longest
	if times < 6 {
		lasts = min(lasts, first<<(times-1))
	}
	return quarantine{Slice: s, Why: why, Since: now, Until: now.Add(lasts), Times: times, Stuck: stuck}
}

// quarantine keeps a place out of use. It is kept in memory also when the store fails, and then does not survive the
// service.
func (f *Fleet) quarantine(s gpu.Slice, why string, stuck bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := placeKey(s.GPU, s.Placement)
	q := f.book.quarantines[key].after(s, why, stuck, time.Now(), f.cfg.Quarantine)
	f.book.quarantines[key] = q
	f.save(key, q)
	f.log.Warn(
		"a place on a GPU is quarantined", "gpu", s.GPU, "place", s.String(), "start", s.Placement.Start, "until",
		q.Until, "why", why,
	)
	f.publishLocked()
}

// save writes a quarantine. It does not end with the call that found the fault.
func (f *Fleet) save(key string, q quarantine) {
	if err := f.book.store.Put(context.Background(), bucketQuarantine, key, q); err != nil {
		f.log.Warn("a quarantine is not saved", "gpu", q.Slice.GPU, "err", err)
	}
}

// endQuarantines ends those of a GPU whose time is over or whose instance is gone. The lock is held.
func (f *Fleet) endQuarantines(c *card, now time.Time) {
	for key, q := range f.book.quarantines {
		switch {
		case q.Slice.GPU != c.device.UUID:
		case q.faded(now):
			if err := f.book.store.Delete(context.Background(), bucketQuarantine, key); err == nil {
				delete(f.book.quarantines, key)
			}
		case q.active(now) && q.Stuck && !covered(c.instances, q.Slice.Placement):
			q.Until, q.Stuck = now, false
			f.book.quarantines[key] = q
			f.save(key, q)
		}
	}
}

// covered reports whether an instance lies at a place.
func covered(instances []gpu.Instance, at gpu.Placement) bool {
	for _, in := range instances {
		if overlap(in.Placement, at) {
			return true
		}
	}
	return false
}

func overlap(a, b gpu.Placement) bool { return placement.Span(a)&placement.Span(b) != 0 }

// Condemn quarantines a place at which a workload's self-test has failed.
func (f *Fleet) Condemn(s gpu.Slice, why string) {
	f.quarantine(s, "self-test: "+why, false)
}

// words says it to people.
func (q quarantine) words() string {
	return fmt.Sprintf("quarantined until %s: %s", q.Until.Format("Jan 2 15:04"), q.Why)
}
