package sshgate

import (
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/devicelogin"
)

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// TestCrowd: one address does not take the room of others, and slow ones not that of who comes after them.
func TestCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, closed := newEntrance(slog.New(slog.DiscardHandler)), 0
		enter := func(a string) (*guest, bool) { return e.enter(addr(a), func() { closed++ }) }
		for i := range mostOfAddress {
			if _, ok := enter("192.0.2.1"); !ok {
				t.Fatalf("the %dth is refused", i)
			}
		}
		if _, ok := enter("192.0.2.1"); ok || closed > 0 {
			t.Error("one too many of an address got in")
		}
		if g, ok := enter("192.0.2.2"); !ok {
			t.Error("another address is refused")
		} else {
			e.leave(g)
			e.leave(g)
		}
		<-time.After(settleTime)
		if _, ok := enter("192.0.2.1"); !ok || closed != 1 {
			t.Error("half-open connections lock their address out")
		}
		if e.guests.all != mostOfAddress {
			t.Errorf("%d are inside", e.guests.all)
		}
	})
}

// TestFull: where many addresses fill the room, those who have the most lose theirs.
func TestFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, closed := newEntrance(slog.New(slog.DiscardHandler)), map[string]int{}
		enter := func(a string) (*guest, bool) {
			return e.enter(addr(a), func() { closed[a]++ })
		}
		alone, _ := enter("203.0.113.1")
		for i := range 10_000 {
			enter(fmt.Sprintf("198.51.100.%d", i%100))
			<-time.After(time.Millisecond)
		}
		if e.guests.all != mostUnproved || !alone.inside || closed["203.0.113.1"] > 0 {
			t.Errorf("%d are inside; who was there first: %v", e.guests.all, alone.inside)
		}
		if _, ok := enter("203.0.113.2"); !ok {
			t.Error("a newcomer is refused")
		}
		total := 0
		for _, list := range e.guests.of {
			total += len(list)
		}
		if total != e.guests.all {
			t.Errorf("%d, not %d", total, e.guests.all)
		}
		for _, list := range e.guests.of {
			for _, g := range slices.Clone(list) {
				e.leave(g)
			}
		}
		if len(e.guests.of)+len(e.guests.in)+e.guests.all > 0 {
			t.Errorf("all have left, and this has not: %v", e.guests)
		}
	})
}

// TestNetworkFull: a network with more sources than there is room has no more of it than others leave.
func TestNetworkFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, closed := newEntrance(slog.New(slog.DiscardHandler)), map[string]int{}
		enter := func(a, whose string) *guest {
			<-time.After(time.Millisecond)
			g, _ := e.enter(addr(a), func() { closed[whose]++ })
			return g
		}
		enter("2001:db8:1:1::1", "a site's")
		enter("2001:db8:1:2::1", "a site's")
		enter("203.0.113.1", "a host's")
		for i := range 2 * mostUnproved {
			enter(fmt.Sprintf("2001:db8:2:%x::1", i), "the crowd's")
		}
		if enter("2001:db8:3::1", "a newcomer's") == nil || len(closed) != 1 || closed["the crowd's"] != mostUnproved+4 {
			t.Errorf("closed: %v", closed)
		}
	})
}

// TestSilent: those of a proxy that says nothing take no other's place, and none on the way.
func TestSilent(t *testing.T) {
	e, closed := newEntrance(slog.New(slog.DiscardHandler)), map[string]int{}
	wait := func(proxy string) (arrived func()) {
		e.approach(t.Context())
		return e.aside(addr(proxy), func() { closed[proxy]++ })
	}
	other := wait("192.0.2.8")
	for range 3 * mostSilent {
		defer wait("192.0.2.7")()
	}
	if closed["192.0.2.7"] != 2*mostSilent+1 || closed["192.0.2.8"] != 0 || e.silent.all != mostSilent || len(e.way) != 0 {
		t.Errorf("closed: %v; %d wait, %d are on the way", closed, e.silent.all, len(e.way))
	}
	if other(); e.silent.all != mostSilent-1 {
		t.Error("who has come in waits on")
	}
}

// TestBrowse: so many of an address wait for a browser. One more pushes out the oldest of the name that has the most,
// once they had time to come in.
func TestBrowse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, closed := newEntrance(slog.New(slog.DiscardHandler)), []string{}
		wait := func(name string) bool {
			g, ok := e.enter(addr("192.0.2.1"), func() { closed = append(closed, name) })
			return ok && e.browse(g, name)
		}
		if !wait("alice") {
			t.Fatal("the first is refused")
		}
		for i := range mostBrowsing {
			if ok := wait("mallory"); ok != (i < mostBrowsing-1) {
				t.Errorf("%d: %v", i, ok)
			}
		}
		<-time.After(settleTime)
		if !wait("bob") || !slices.Equal(closed, []string{"mallory"}) {
			t.Errorf("closed: %v", closed)
		}
	})
}

// TestSuspicionLeavesTheBrowser: whoever has failed from an address, its others still log in by their browsers.
func TestSuspicionLeavesTheBrowser(t *testing.T) {
	e := newEntrance(slog.New(slog.DiscardHandler))
	for range 2 * mostFailures {
		e.failed(&guest{from: devicelogin.Source(addr("192.0.2.1"))})
	}
	g, ok := e.enter(addr("192.0.2.1"), func() {})
	if !ok || !g.suspect || !e.browse(g, "alice") {
		t.Error("no browser for who comes from an address under suspicion")
	}
}

// TestSuspects: where too many have failed there is less room for a while, and still some; nobody else sees any of it.
func TestSuspects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEntrance(slog.New(slog.DiscardHandler))
		fail := func(a string) (suspect bool) {
			g, ok := e.enter(addr(a), func() {})
			if !ok {
				t.Fatal("refused")
			}
			e.failed(g)
			e.leave(g)
			return g.suspect
		}
		for i := range mostFailures {
			if fail("192.0.2.1") {
				t.Fatalf("a suspect after %d", i)
			}
		}
		if !fail("192.0.2.1") {
			t.Error("no suspect")
		}
		if fail("192.0.2.2") {
			t.Error("another address is suspect")
		}
		for i := range mostSuspects + 1 {
			g, ok := e.enter(addr("192.0.2.1"), func() {})
			if ok != (i < mostSuspects) || ok && !e.browse(g, "alice") {
				t.Errorf("%d: %v", i, ok)
			}
		}
		<-time.After(suspectTime + time.Second)
		if fail("192.0.2.1") {
			t.Error("suspect for ever")
		}
		for range 3 * mostFailures { // slowly: never too many at once
			<-time.After(failureTime / 20)
			if fail("192.0.2.3") {
				t.Fatal("a slow one is suspect")
			}
		}
	})
}

func TestManyFailers(t *testing.T) {
	e := newEntrance(slog.New(slog.DiscardHandler))
	for i := range mostRemember + 100 {
		e.failed(&guest{from: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 32)})
	}
	if len(e.failures) > mostRemember {
		t.Errorf("%d are remembered", len(e.failures))
	}
}
