// Package culling says when a session is stopped because nothing goes on in it, nobody has opened it, or its time is
// up, and when its user is told.
//
// Promises: nobody is stopped for being idle of whom nothing is known, nor without having been told in time. It judges
// what it is given: it has no clock and does no I/O. Who stops a session is the engine.
package culling

import (
	"fmt"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/clock"
	"slipway/spawner"
)

// How well it is known what goes on in a session.
const (
	LookEvery = time.Minute     // how often a session's agent is asked what goes on
	FreshLook = 3 * time.Minute // for how long its answer counts
)

// A session whose place in a batch system ends is warned twice: nothing that its user does postpones that.
const (
	deadlineWarning  = 15 * time.Minute
	deadlineLastCall = 5 * time.Minute
)

// PlannedStop judges a running session at now, by its record, by when its agent last told what goes on in it, and by
// when its place in a batch system ends, if that is known. It has no clock.
func PlannedStop(w spawner.Workload, looked, deadline, now time.Time) spawner.PlannedStop {
	l, idleSince := w.Spec.Life, clock.Latest(w.Up, w.Visited, w.Active)
	var p spawner.PlannedStop
	earlier := func(at time.Time, limit time.Duration, why string, known, canKeep bool) {
		if p.At.IsZero() || at.Before(p.At) {
			p = spawner.PlannedStop{
				At: at, Why: why, Known: known, Idle: canKeep, CanKeep: canKeep && l.MaxKeep > 0, MaxKeep: l.MaxKeep,
			}
			p.Warning = min(l.Warning, limit/2) // else one with a short limit would be told all the time
		}
	}
	if l.MaxAge > 0 {
		earlier(
			w.Up.Add(l.MaxAge), l.MaxAge, fmt.Sprintf("up for %s of at most %s", Words(now.Sub(w.Up)), Words(l.MaxAge)),
			true, false,
		)
	}
	if limit := deadline.Sub(w.Up); !deadline.IsZero() && (p.At.IsZero() || deadline.Before(p.At)) {
		p = spawner.PlannedStop{
			At: deadline, Why: "its time on the batch system ends", Known: true,
			Warning: min(deadlineWarning, max(limit/2, 0)), LastCall: deadlineLastCall,
		}
	}
	kept := func(at time.Time, why string) (time.Time, string) {
		if w.KeepUntil.After(at) {
			return w.KeepUntil, "it was to be kept until then"
		}
		return at, why
	}
	unopened := w.Visited.IsZero() && w.Active.IsZero()
	if unopened && l.FirstConnect > 0 {
		at, why := kept(w.Up.Add(l.FirstConnect), "not opened by anybody for "+Words(l.FirstConnect))
		earlier(at, l.FirstConnect, why, true, true)
	}
	if l.Idle > 0 && (!unopened || l.FirstConnect == 0) {
		why := fmt.Sprintf("idle for %s of at most %s", Words(now.Sub(idleSince)), Words(l.Idle))
		if now.Sub(idleSince) < LookEvery {
			why = fmt.Sprintf("if nothing goes on in it for %s", Words(l.Idle))
		}
		at, why := kept(idleSince.Add(l.Idle), why)
		earlier(at, l.Idle, why, now.Sub(looked) <= FreshLook, true)
	}
	return p
}

// Words says a duration as people do.
func Words(d time.Duration) string {
	minutes := max(int(d.Round(time.Minute).Minutes()), 0) // a clock may have been set back
	switch h, m := minutes/60, minutes%60; {
	case minutes == 0:
		return "less than a minute"
	case h == 0:
		return fmt.Sprintf("%d min", m)
	case m == 0:
		return fmt.Sprintf("%d h", h)
	default:
		return fmt.Sprintf("%d h %d min", h, m)
	}
}

// Pulse is what is known of what goes on in a session while the service runs. When something last did is in its record.
type Pulse struct {
	Looked time.Time      // when its agent last told; zero: not yet
	Mute   time.Time      // since when it has not answered, though it is connected; zero: it does
	CPU    float64        // seconds, at that time
	Memory int64          // bytes, at that time; 0: it is not known
	Left   time.Time      // since when a kernel was seen without a client; zero: it has one
	Asked  time.Time      // when somebody last asked for a kernel that is not up yet; zero: not yet
	Lost   int64          // of a kernel, Activity.Dropped
	Deaths control.Deaths // the same, Activity.Deaths
	Saved  time.Time      // the Active that is in the store
	Warned time.Time      // when its user was told of the coming stop; zero: not
	Stop   time.Time      // the time of that stop
}

// ActiveAt returns when something last went on in a session, by what its agent tells at now; zero when nothing is known
// to have.
func (p Pulse) ActiveAt(a control.Activity, l spawner.Life, now time.Time) time.Time {
	if a.Asked && (a.Busy > 0 || l.Connected && !a.Left) {
		return now
	}
	if elapsed := now.Sub(p.Looked).Seconds(); l.BusyCPU > 0 && !p.Looked.IsZero() && elapsed > 0 &&
		(a.CPU-p.CPU)/elapsed > l.BusyCPU {
		return now
	}
	if a.Quiet >= 0 {
		return now.Add(-time.Duration(min(a.Quiet, longestQuiet.Seconds()) * float64(time.Second)))
	}
	return time.Time{}
}

// longestQuiet bounds what an agent may say, which runs as the user.
const longestQuiet = 10 * 365 * 24 * time.Hour

// Due reports whether a running session is to be stopped now. Nobody is stopped for being idle of whom nothing is
// known, nor without having been told in time, also when the service was away when the warning was due.
func (p Pulse) Due(stop spawner.PlannedStop, w spawner.Workload, now time.Time) bool {
	switch {
	case stop.At.IsZero() || now.Before(stop.At) || !stop.Known:
		return false
	case Unopened(w) || stop.Warning == 0:
		return true
	default:
		return p.ToldOf(stop) && now.Sub(p.Warned) >= LeastWarning(stop)
	}
}

// LastCall reports whether a session's user, who was told of a stop, is to be told once more at now.
func (p Pulse) LastCall(stop spawner.PlannedStop, now time.Time) bool {
	at := stop.At.Add(-stop.LastCall)
	return stop.LastCall > 0 && p.ToldOf(stop) && p.Warned.Before(at) && !now.Before(at)
}

// ToldOf reports whether a session's user was told of a stop, and not only of an earlier one that did not come.
func (p Pulse) ToldOf(stop spawner.PlannedStop) bool {
	return !p.Warned.IsZero() && stop.At.Before(p.Stop.Add(sameStop))
}

// sameStop is by how much a stop may move without being another one: ages come over a network.
const sameStop = time.Minute

// Unopened reports whether there is nobody who could be warned.
func Unopened(w spawner.Workload) bool {
	return w.Visited.IsZero() && w.Active.IsZero() && w.KeepUntil.IsZero()
}

// LeastWarning is how long before its stop a session is told in any case, also when the service was away when it was to
// be told.
func LeastWarning(p spawner.PlannedStop) time.Duration { return min(p.Warning, 2*time.Minute) }
