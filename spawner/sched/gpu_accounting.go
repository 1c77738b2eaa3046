package sched

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"slipway/spawner"
)

const (
	// defaultWindow is over which GPU hours are told where nothing limits them.
	defaultWindow = 7 * 24 * time.Hour
	// MostWindow is how far back GPU hours are known.
	MostWindow = 90 * 24 * time.Hour
	// mostAway is what of the time while the service was down is counted of slices that were held before and after:
	// whether they were of use nobody knows, and the clock may have been set.
	mostAway = 6 * time.Hour
)

// hours are the GPU hours that users have had, by the hours of the clock in which they had them. Each slice counts as
// the part of a GPU that it is, for who holds it: what is borrowed counts for the lender.
type hours struct {
	of  map[spawner.Principal]map[int64]float64
	sum map[spawner.Principal]float64 // of each one's window
	at  time.Time                     // until when all that is held has been counted
}

func newHours() hours {
	return hours{of: map[spawner.Principal]map[int64]float64{}, sum: map[spawner.Principal]float64{}}
}

func hourOf(t time.Time) int64 { return t.Unix() / 3600 }

// add counts what o has had until now.
func (h *hours) add(o spawner.Principal, now time.Time, amount float64) {
	if h.of[o] == nil {
		h.of[o] = map[int64]float64{}
	}
	h.of[o][hourOf(now)] += amount
	h.sum[o] += amount
}

// since returns for how long until now something is to be counted that is held since a time.
func (h *hours) since(held, now time.Time) time.Duration {
	if h.at.After(held) {
		held = h.at
	}
	return min(max(now.Sub(held), 0), mostAway)
}

// count says that all is counted until now, after a time by a clock that nobody sets, and forgets what is too old to
// matter. Where the other clock was set meanwhile, what is known moves with it: it stays as old as it is.
func (h *hours) count(now time.Time, passed time.Duration) {
	var jump int64
	if !h.at.IsZero() {
		jump = int64((now.Round(0).Sub(h.at.Round(0)) - passed).Round(time.Hour) / time.Hour)
	}
	oldest := hourOf(now.Add(-MostWindow))
	for o, mine := range h.of {
		moved := make(map[int64]float64, len(mine))
		for hour, n := range mine {
			if hour = min(hour+jump, hourOf(now)); hour > oldest {
				moved[hour] += n
			}
		}
		if h.of[o] = moved; len(moved) == 0 {
			delete(h.of, o)
			delete(h.sum, o)
		}
	}
	h.at = now
}

// within sums what o has had within a window.
func (h *hours) within(o spawner.Principal, window time.Duration, now time.Time) float64 {
	sum := 0.0
	for hour, n := range h.of[o] {
		if hour > hourOf(now.Add(-window)) {
			sum += n
		}
	}
	return sum
}

// below returns when o will have had less than most within a window, if she has no more.
func (h *hours) below(o spawner.Principal, window time.Duration, most float64, now time.Time) time.Time {
	left := h.within(o, window, now)
	for _, hour := range slices.Sorted(maps.Keys(h.of[o])) {
		if hour > hourOf(now.Add(-window)) {
			if left -= h.of[o][hour]; left < most {
				return time.Unix(hour*3600, 0).Add(window)
			}
		}
	}
	return now
}

// pay counts a slice that its holder has until now. What a standby holds nobody has asked for.
func (s *Scheduler) pay(id spawner.ID, now time.Time) {
	held, holds := s.slices[id]
	w := s.work[id]
	if !holds || w == nil || w.Standby != "" || s.slices.lent(held) {
		return
	}
	if d := s.hours.since(held.since, now); d > 0 {
		s.hours.add(w.Principal(), now, held.Part()*d.Hours())
		s.unsaved[w.Principal()] = true
	}
}

// payAll counts all slices that are held until now.
func (s *Scheduler) payAll(now time.Time) {
	for id := range s.slices {
		s.pay(id, now)
	}
	s.hours.count(now, now.Sub(s.hours.at))
	s.Recount(now)
}

// recount sums what a user has had within her window.
func (s *Scheduler) recount(o spawner.Principal, now time.Time) {
	s.hours.sum[o] = s.hours.within(o, s.window(o), now)
}

func (s *Scheduler) window(o spawner.Principal) time.Duration {
	if w := s.allowances[o].Window; w > 0 {
		return w
	}
	return defaultWindow
}

// overspent reports whether a user's jobs of a line have to wait until she has had fewer GPU hours.
func (s *Scheduler) overspent(c association, l line) bool {
	most := s.allowances[c.of].GPUHours
	return most > 0 && c.jobs && l.mode != "" && s.hours.sum[c.of] >= most
}

// whySpent says so in words.
func (s *Scheduler) whySpent(o spawner.Principal) string {
	a, now := s.allowances[o], time.Now()
	return fmt.Sprintf("you have used %s of the %s GPU hours that you may in %s; some are free again from %s",
		formatHours(s.hours.sum[o]), formatHours(a.GPUHours), formatWindow(a.Window), s.hours.below(o, a.Window, a.GPUHours, now).UTC().Format("Jan 2, 15:04 UTC"))
}

// formatHours returns a number of hours as people read it: "0.25", "12.5", "300".
func formatHours(h float64) string {
	if h >= 100 {
		return fmt.Sprintf("%.0f", h)
	}
	return fmt.Sprintf("%.3g", h)
}

// formatWindow returns a time as people say it: "7 days", "12h0m0s".
func formatWindow(d time.Duration) string {
	if day := 24 * time.Hour; d >= 2*day && d%day == 0 {
		return fmt.Sprintf("%d days", d/day)
	}
	return d.String()
}
