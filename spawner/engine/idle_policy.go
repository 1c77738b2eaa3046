package engine

import (
	"fmt"
	"time"

	"slipway/internal/agent/control"
	"slipway/spawner"
)

// prospect judges a running session at now, by its record and by when its agent last told what goes on in it. It has no clock.
func prospect(w spawner.Workload, looked, now time.Time) spawner.Prospect {
	l, idleSince := w.Spec.Life, latest(w.Up, w.Visited, w.Active)
	var p spawner.Prospect
	earlier := func(at time.Time, limit time.Duration, why string, known, canKeep bool) {
		if p.At.IsZero() || at.Before(p.At) {
			p = spawner.Prospect{At: at, Why: why, Known: known, Idle: canKeep, CanKeep: canKeep && l.MaxKeep > 0, MaxKeep: l.MaxKeep}
			p.Warning = min(l.Warning, limit/2) // else one with a short limit would be told all the time
		}
	}
	if l.MaxAge > 0 {
		earlier(w.Up.Add(l.MaxAge), l.MaxAge, fmt.Sprintf("up for %s of at most %s", words(now.Sub(w.Up)), words(l.MaxAge)), true, false)
	}
	kept := func(at time.Time, why string) (time.Time, string) {
		if w.KeepUntil.After(at) {
			return w.KeepUntil, "it was to be kept until then"
		}
		return at, why
	}
	unopened := w.Visited.IsZero() && w.Active.IsZero()
	if unopened && l.FirstConnect > 0 {
		at, why := kept(w.Up.Add(l.FirstConnect), "not opened by anybody for "+words(l.FirstConnect))
		earlier(at, l.FirstConnect, why, true, true)
	}
	if l.Idle > 0 && (!unopened || l.FirstConnect == 0) {
		why := fmt.Sprintf("idle for %s of at most %s", words(now.Sub(idleSince)), words(l.Idle))
		if now.Sub(idleSince) < lookEvery {
			why = fmt.Sprintf("if nothing goes on in it for %s", words(l.Idle))
		}
		at, why := kept(idleSince.Add(l.Idle), why)
		earlier(at, l.Idle, why, now.Sub(looked) <= freshLook, true)
	}
	return p
}

// prospect judges a running session by what is known of it at now.
func (e *entry) prospect(now time.Time) spawner.Prospect {
	return prospect(e.Workload, e.pulse.looked, now)
}

func latest(first time.Time, others ...time.Time) time.Time {
	for _, t := range others {
		if t.After(first) {
			first = t
		}
	}
	return first
}

// words says a duration as people do.
func words(d time.Duration) string {
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

// pulse is what is known of what goes on in a session while the service runs. When something last did is in its record.
type pulse struct {
	looked time.Time      // when its agent last told; zero: not yet
	mute   time.Time      // since when it has not answered, though it is connected; zero: it does
	cpu    float64        // seconds, at that time
	left   time.Time      // since when a kernel was seen without a client; zero: it has one
	asked  time.Time      // when somebody last asked for a kernel that is not up yet; zero: not yet
	lost   int64          // of a kernel, Activity.Dropped
	deaths control.Deaths // the same, Activity.Deaths
	saved  time.Time      // the Active that is in the store
	warned time.Time      // when its user was told of the coming stop; zero: not
	stop   time.Time      // the time of that stop
}

// activeAt returns when something last went on in a session, by what its agent tells at now; zero when nothing is known to have.
func (p pulse) activeAt(a control.Activity, l spawner.Life, now time.Time) time.Time {
	if a.Asked && (a.Busy > 0 || l.Connected && !a.Left) {
		return now
	}
	if elapsed := now.Sub(p.looked).Seconds(); l.BusyCPU > 0 && !p.looked.IsZero() && elapsed > 0 && (a.CPU-p.cpu)/elapsed > l.BusyCPU {
		return now
	}
	if a.Quiet >= 0 {
		return now.Add(-time.Duration(min(a.Quiet, longestQuiet.Seconds()) * float64(time.Second)))
	}
	return time.Time{}
}

// longestQuiet bounds what an agent may say, which runs as the user.
const longestQuiet = 10 * 365 * 24 * time.Hour

// due reports whether a running session is to be stopped now. Nobody is stopped for being idle of whom nothing is known, nor
// without having been told in time, also when the service was away when the warning was due.
func (e *entry) due(now time.Time) bool {
	p := e.prospect(now)
	switch {
	case e.overrun() != nil:
		return true
	case p.At.IsZero() || now.Before(p.At) || !p.Known:
		return false
	case e.unopened() || p.Warning == 0:
		return true
	default:
		return e.pulse.toldOf(p) && now.Sub(e.pulse.warned) >= leastWarning(p)
	}
}

// toldOf reports whether a session's user was told of a stop, and not only of an earlier one that did not come.
func (p pulse) toldOf(stop spawner.Prospect) bool {
	return !p.warned.IsZero() && stop.At.Before(p.stop.Add(sameStop))
}

// sameStop is by how much a stop may move without being another one: ages come over a network.
const sameStop = time.Minute

// unopened reports whether there is nobody who could be warned.
func (e *entry) unopened() bool {
	return e.Visited.IsZero() && e.Active.IsZero() && e.KeepUntil.IsZero()
}

// leastWarning is how long before its stop a session is told in any case, also when the service was away when it was to be told.
func leastWarning(p spawner.Prospect) time.Duration { return min(p.Warning, 2*time.Minute) }
