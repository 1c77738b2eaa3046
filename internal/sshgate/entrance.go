package sshgate

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"slipway/internal/sshauth"
)

// What those may take who have not proved yet who they are.
const (
	mostUnproved  = 512 // connections in all
	mostArriving  = 128 // that are accepted and not in yet, or closed for others to come in: so much on top the gateway has open
	mostOfAddress = 32  // of one address
	mostBrowsing  = 8   // of one address that wait for a browser
	settleTime    = 5 * time.Second
	greetTime     = 10 * time.Second // for the first line
	loginTime     = 2 * time.Minute  // for the rest of a login but the browser's part

	mostFailures = 30 // failed logins of one address in failureTime: then it is under suspicion for suspectTime
	failureTime  = 10 * time.Minute
	suspectTime  = 10 * time.Minute
	mostSuspects = 8       // connections of an address under suspicion
	mostGuesses  = 6       // keys that one of them may try
	mostRemember = 1 << 16 // addresses with failures
)

// entrance bounds the connections that have not logged in. Who has is not counted, so that no crowd of others gets in her way.
type entrance struct {
	log *slog.Logger
	way chan struct{} // holds one thing for each connection on its way in

	mu       sync.Mutex
	guests   map[netip.Prefix][]*guest // oldest first
	all      int
	failures map[netip.Prefix]*failure
}

// guest is a connection that has not logged in.
type guest struct {
	from    netip.Prefix
	since   time.Time
	close   func()
	inside  bool
	browses bool
	suspect bool // too many have failed who came from where it comes from
}

// failure is what an address has failed at.
type failure struct {
	since   time.Time
	count   int
	suspect time.Time // until when
}

func newEntrance(log *slog.Logger) *entrance {
	return &entrance{log: log, way: make(chan struct{}, mostArriving), guests: map[netip.Prefix][]*guest{}, failures: map[netip.Prefix]*failure{}}
}

// approach waits for a place among those on their way in. Nobody there waits for what a client does, so it is soon free; who is not accepted
// meanwhile waits in the kernel, in line. True: arrived must follow.
func (e *entrance) approach(ctx context.Context) bool {
	select {
	case e.way <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// arrived says that a connection is in, or closed.
func (e *entrance) arrived() { <-e.way }

// enter lets a connection in, if there is room or if room can be made: of an address that has too many, one that has taken longer than any
// login does goes; where there are too many in all, the oldest of the address that has the most. An address under suspicion has less room, and
// is not refused: others may come from it who can prove themselves. Who had to go is closed when it returns. closing waits until that is so.
func (e *entrance) enter(from netip.Addr, closing func()) (in *guest, ok bool) {
	in, out := e.place(from, closing)
	if out != nil {
		out.close()
	}
	return in, in != nil
}

// place says who comes in, nil if nobody does, and who has to go for it.
func (e *entrance) place(from netip.Addr, closing func()) (in, out *guest) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now, source := time.Now(), sshauth.Source(from)
	f, most := e.failures[source], mostOfAddress
	suspect := f != nil && now.Before(f.suspect)
	if suspect {
		most = mostSuspects
	}
	full := true
	switch {
	case len(e.guests[source]) >= most:
		out = e.dismissLocked(source, now.Add(-settleTime))
	case e.all >= mostUnproved:
		out = e.dismissLocked(e.crowdLocked(), now)
	default:
		full = false
	}
	if full && out == nil {
		return nil, nil
	}
	in = &guest{from: source, since: now, close: closing, inside: true, suspect: suspect}
	e.guests[source] = append(e.guests[source], in)
	e.all++
	return in, out
}

// dismissLocked finds who of a source has to go: the oldest that came before a time. Who waits for a browser is let wait while there are others.
func (e *entrance) dismissLocked(source netip.Prefix, before time.Time) *guest {
	for _, patient := range []bool{false, true} {
		for _, g := range e.guests[source] {
			if g.browses == patient && !g.since.After(before) {
				e.removeLocked(g)
				return g
			}
		}
	}
	return nil
}

// crowdLocked finds the source with the most connections, of several the one whose first is the oldest.
func (e *entrance) crowdLocked() (most netip.Prefix) {
	for source, list := range e.guests {
		now := e.guests[most]
		if len(list) > len(now) || len(list) == len(now) && list[0].since.Before(now[0].since) {
			most = source
		}
	}
	return most
}

// leave says that a connection is not one of these any more: it has logged in, or is gone.
func (e *entrance) leave(g *guest) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.removeLocked(g)
}

func (e *entrance) removeLocked(g *guest) {
	if !g.inside {
		return
	}
	g.inside = false
	e.all--
	list := e.guests[g.from]
	for i, other := range list {
		if other == g {
			list = append(list[:i:i], list[i+1:]...)
			break
		}
	}
	if e.guests[g.from] = list; len(list) == 0 {
		delete(e.guests, g.from)
	}
}

// browse says that a connection waits for a browser, if not too many of its address do, and it is under no suspicion.
func (e *entrance) browse(g *guest) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for _, other := range e.guests[g.from] {
		if other.browses {
			n++
		}
	}
	if n >= mostBrowsing || !g.inside || g.suspect {
		return false
	}
	g.browses = true
	return true
}

// failed counts a failed login.
func (e *entrance) failed(g *guest) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	f := e.failures[g.from]
	if f == nil || now.Sub(f.since) > failureTime {
		e.forgetLocked(now)
		f = &failure{since: now}
		e.failures[g.from] = f
	}
	if f.count++; f.count == mostFailures {
		f.suspect = now.Add(suspectTime)
		e.log.Warn("too many failed ssh logins from one address: only good keys are let in from there, and few tries", "address", g.from.String(),
			"failures", f.count, "for", suspectTime)
	}
}

// forgetLocked drops what is over, where there is much; and where that is not enough, some of the rest.
func (e *entrance) forgetLocked(now time.Time) {
	if len(e.failures) < mostRemember {
		return
	}
	for source, f := range e.failures {
		if now.Sub(f.since) > failureTime && now.After(f.suspect) {
			delete(e.failures, source)
		}
	}
	for source := range e.failures {
		if len(e.failures) < mostRemember {
			return
		}
		delete(e.failures, source)
	}
}
