package sched

import (
	"cmp"
	"time"

	"slipway/spawner"
)

// Room says whether a workload that has not been asked for yet could start now, and how many of its kind. Reads only.
func (s *Scheduler) Room(w spawner.Workload) spawner.Room {
	w.Turn = s.turn + 1
	l, g := lineOf(w), w.LocalGPU()
	standbys := s.StandbysHolding(func(*spawner.Workload) bool { return true }) // they give way to whoever asks
	book := s.ledger.plus(-1, standbys)
	room := spawner.Room{Waiting: len(s.lines.byAge[l]), Lacks: book.lacks(l.backend, w.Spec.Resources), Estimate: -1}
	room.Most, room.Free = book.room(l.backend, w.Spec.Resources)
	if !g.None() {
		s.roomOnGPUs(&room, g, s.slices.heldBeside(standbys))
	}
	if w.Kind.Batch() {
		room.Lacks = cmp.Or(s.whyBarred(associationOf(w), l), room.Lacks)
	}
	if first := s.head(l); room.Lacks == "" && first != nil && !s.before(candidateOf(&w), candidateOf(first)) {
		room.Lacks = "others wait in line"
	}
	if room.Lacks == "" {
		room.Lacks = s.yields(w, Grant{})
	}
	if room.Lacks != "" {
		room.Estimate = s.estimate(l, s.ahead(&w)+1)
	}
	return room
}

// What is looked at to estimate a wait: the completions of the last hours.
const (
	completionSpan  = 6 * time.Hour
	completionCount = 20
	fewCompletions  = 3
)

// completions are the times at which a backend's resources were given back, oldest first.
type completions []time.Time

func (c completions) add(at time.Time) completions {
	c = append(c, at)
	if len(c) > completionCount {
		c = c[len(c)-completionCount:]
	}
	return c
}

// estimate returns how long the one at place waits if room comes free as often as of late; negative when too little is
// known.
func (c completions) estimate(place int, now time.Time) time.Duration {
	for len(c) > 0 && now.Sub(c[0]) > completionSpan {
		c = c[1:]
	}
	if len(c) < fewCompletions {
		return -1
	}
	return time.Duration(place) * now.Sub(c[0]) / time.Duration(len(c))
}

func (s *Scheduler) estimate(l line, place int) time.Duration {
	return s.completions[l].estimate(place, time.Now())
}
