package sshgate

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"slipway/internal/devicelogin"
)

// What those may take who have not proved yet who they are.
//
// None of it keeps guesses from being right, and nobody is locked out for them: a key has at least 2^112 values, and a
// network of 65,536 addresses with 32 connections each that try 20 keys a second, 4e7 in all, would need 4e18 years. A
// login by the browser has nothing to guess here: who has logged in at the Hub confirms it there, by a code that the
// gateway shows (see sshauth.newCode). The bounds are for the load, and for those who come from the same address as
// somebody who makes it.
const (
	mostUnproved = 512 // connections in all
	// that are accepted and not in yet, or closed for others to come in: so much on top the gateway has open
	mostArriving  = 128
	mostSilent    = 128 // of proxies that have not said yet for whom they come: on top of that
	mostOfAddress = 32  // of one address
	mostBrowsing  = 8   // of one address that wait for a browser
	settleTime    = 5 * time.Second
	greetTime     = 10 * time.Second // for the first line
	loginTime     = 2 * time.Minute  // for the rest of a login but the browser's part

	mostFailures = 30 // failed logins of one address in failureTime: then it is under suspicion for suspectTime
	failureTime  = 10 * time.Minute
	suspectTime  = 10 * time.Minute
	mostSuspects = 8 // connections of an address under suspicion
	mostGuesses  = 6 // keys that one of them may try without a wait
	suspectDelay = time.Second
	mostRemember = 1 << 16 // addresses with failures
)

// entrance bounds the connections that have not logged in. Who has is not counted, so that no crowd of others gets in
// her way.
type entrance struct {
	log *slog.Logger
	way chan struct{} // holds one thing for each connection on its way in

	mu       sync.Mutex
	guests   crowd // the connections that are in
	silent   crowd // those of proxies that are waited for, by proxy
	failures map[netip.Prefix]*failure
}

// failure is what an address has failed at.
type failure struct {
	since   time.Time
	count   int
	suspect time.Time // until when
}

func newEntrance(log *slog.Logger) *entrance {
	return &entrance{
		log: log, way: make(chan struct{}, mostArriving), guests: newCrowd(), silent: newCrowd(),
		failures: map[netip.Prefix]*failure{},
	}
}

// approach waits for a place among those on their way in. Nobody there waits for what a client or a proxy does, so it
// is soon free; who is not accepted meanwhile waits in the kernel, in line. True: arrived or aside must follow.
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

// aside takes a proxy's connection off the way, to wait there until it says for whom it comes. There is always room:
// where too many wait, the oldest of the proxy that has the most goes. What it returns is called in place of arrived.
func (e *entrance) aside(proxy netip.Addr, closing func()) (arrived func()) {
	defer e.arrived()
	in, out := e.wait(proxy, closing)
	if out != nil {
		out.close()
	}
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.silent.remove(in)
	}
}

// wait says who waits, and who has to go for it.
func (e *entrance) wait(proxy netip.Addr, closing func()) (in, out *guest) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	if e.silent.all >= mostSilent {
		out = e.silent.dismiss(e.silent.largest(), now)
	}
	in = &guest{from: devicelogin.Source(proxy), since: now, close: closing}
	e.silent.add(in)
	return in, out
}

// enter lets a connection in, if there is room or if room can be made: of an address that has too many, one that has
// taken longer than any login does goes; where there are too many in all, the oldest of the address that has the most
// in the network that has the most. An address under suspicion has less room, and is not refused: others may come from
// it who can prove themselves. Who had to go is closed when it returns. closing waits until that is so.
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
	now, source := time.Now(), devicelogin.Source(from)
	f, most := e.failures[source], mostOfAddress
	suspect := f != nil && now.Before(f.suspect)
	if suspect {
		most = mostSuspects
	}
	full := true
	switch {
	case len(e.guests.of[source]) >= most:
		out = e.guests.dismiss(source, now.Add(-settleTime))
	case e.guests.all >= mostUnproved:
		out = e.guests.dismiss(e.guests.largest(), now)
	default:
		full = false
	}
	if full && out == nil {
		return nil, nil
	}
	in = &guest{from: source, since: now, close: closing, suspect: suspect}
	e.guests.add(in)
	return in, out
}

// leave says that a connection is not one of these any more: it has logged in, or is gone.
func (e *entrance) leave(g *guest) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.guests.remove(g)
}

// browse says that a connection waits for a browser, to log in as name. Where too many of its address do, one makes
// room that has waited longer than it takes to come: the oldest for the name that most wait for. So who tries one name
// in a row gets in the way of that name alone.
func (e *entrance) browse(g *guest, name string) bool {
	ok, out := e.letBrowse(g, name)
	if out != nil {
		out.close()
	}
	return ok
}

func (e *entrance) letBrowse(g *guest, name string) (ok bool, out *guest) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !g.inside {
		return false, nil
	}
	names, n := map[string]int{}, 0
	for _, other := range e.guests.of[g.from] {
		if other.browses && other != g {
			names[other.name]++
			n++
		}
	}
	if n >= mostBrowsing {
		before := time.Now().Add(-settleTime)
		for _, other := range e.guests.of[g.from] { // oldest first
			if other.browses && other != g && !other.since.After(before) && (out == nil ||
				names[other.name] > names[out.name]) {
				out = other
			}
		}
		if out == nil {
			return false, nil
		}
		e.guests.remove(out)
	}
	g.browses, g.name = true, name
	return true, out
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
		e.log.Warn("too many failed ssh logins from one address: it has less room, and waits between tries", "address", g.from.String(),
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
