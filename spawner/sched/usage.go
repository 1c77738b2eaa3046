package sched

import (
	"time"

	"slipway/spawner"
)

// Usage is what one user has had, as the store has it.
type Usage struct {
	Hub   string             `json:"hub"`
	User  spawner.User       `json:"user"`
	Hours map[int64]float64  `json:"hours,omitempty"` // of GPUs, by the hour of the clock since 1970
	Uses  map[string]float64 `json:"uses,omitempty"`  // of backends, by their names; see shares
	At    time.Time          `json:"at"`              // until when that is counted
}

// Restore takes in what a user has had in earlier runs of the service.
func (s *Scheduler) Restore(u Usage, now time.Time) {
	o := spawner.Principal{Hub: u.Hub, User: u.User}
	if len(u.Hours) > 0 {
		s.hours.of[o] = u.Hours
	}
	if u.At.After(s.hours.at) {
		s.hours.at = u.At
	}
	for backend, use := range u.Uses {
		mine := &share{use: use, at: u.At}
		mine.settle(now, s.shares.half)
		s.shares.of[association{backend, o, true}] = mine
	}
}

// Count brings all up to now, and returns what is to be saved.
func (s *Scheduler) Count(now time.Time) map[spawner.Principal]Usage {
	s.payAll(now)
	s.shares.tick(now)
	for c, mine := range s.shares.of {
		if mine.count > 0 {
			s.unsaved[c.of] = true
		}
	}
	all := make(map[spawner.Principal]Usage, len(s.unsaved))
	for o := range s.unsaved {
		all[o] = s.usage(o, now)
	}
	clear(s.unsaved)
	return all
}

// Unsaved notes that what a user has had could not be saved.
func (s *Scheduler) Unsaved(o spawner.Principal) { s.unsaved[o] = true }

func (s *Scheduler) usage(o spawner.Principal, now time.Time) Usage {
	u := Usage{Hub: o.Hub, User: o.User, Hours: map[int64]float64{}, Uses: map[string]float64{}, At: now}
	for hour, n := range s.hours.of[o] {
		u.Hours[hour] = n
	}
	for name := range s.cfg.Remote {
		if mine := s.shares.of[association{name, o, true}]; mine != nil && mine.use > 0 {
			u.Uses[name] = mine.use
		}
	}
	return u
}

// Tick has who waits stand in the order of what users have had until now.
func (s *Scheduler) Tick(now time.Time) { s.shares.tick(now) }

// Recount sums anew what users have had within their windows, which may have changed.
func (s *Scheduler) Recount(now time.Time) {
	for o := range s.hours.of {
		s.recount(o, now)
	}
}

// GPUHoursSince returns the GPU hours that users have had since a time, by the hour of the clock since 1970. Reads only.
func (s *Scheduler) GPUHoursSince(t time.Time) map[spawner.Principal]map[int64]float64 {
	out := map[spawner.Principal]map[int64]float64{}
	for o, mine := range s.hours.of {
		for hour, n := range mine {
			if hour < hourOf(t) {
				continue
			}
			if out[o] == nil {
				out[o] = map[int64]float64{}
			}
			out[o][hour] = n
		}
	}
	return out
}

// GPUHours returns how many GPU hours a user has had in her window, and how long that is. Reads only.
func (s *Scheduler) GPUHours(o spawner.Principal, now time.Time) (hours float64, window time.Duration) {
	window = s.window(o)
	return s.hours.within(o, window, now), window
}
