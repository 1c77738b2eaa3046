package sshgate

import (
	"fmt"
	"log/slog"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
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
		if e.all != mostOfAddress {
			t.Errorf("%d are inside", e.all)
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
		if e.all != mostUnproved || !alone.inside || closed["203.0.113.1"] > 0 {
			t.Errorf("%d are inside; who was there first: %v", e.all, alone.inside)
		}
		if _, ok := enter("203.0.113.2"); !ok {
			t.Error("a newcomer is refused")
		}
		total := 0
		for _, list := range e.guests {
			total += len(list)
		}
		if total != e.all {
			t.Errorf("%d, not %d", total, e.all)
		}
	})
}

func TestBrowse(t *testing.T) {
	e := newEntrance(slog.New(slog.DiscardHandler))
	for i := range mostBrowsing + 1 {
		g, _ := e.enter(addr("192.0.2.1"), func() {})
		if ok := e.browse(g); ok != (i < mostBrowsing) {
			t.Errorf("%d: %v", i, ok)
		}
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
			if ok != (i < mostSuspects) || ok && e.browse(g) {
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
