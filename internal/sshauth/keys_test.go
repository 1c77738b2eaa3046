package sshauth

import (
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/errs"
)

func add(t *testing.T, a *Authority, o Owner, text string) Key {
	t.Helper()
	k, err := a.AddKey(t.Context(), o, text, "")
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestKeysAreKept(t *testing.T) {
	cfg := configOf(t, newMemory())
	a := opened(t, cfg)
	k := add(t, a, alice(), anEd+" laptop")
	add(t, a, bob(), anEd)
	if again, err := a.AddKey(t.Context(), alice(), anEd, "my \x1b[1mnew\nlaptop"); err != nil || !again.Already || k.Already {
		t.Fatalf("%+v, %v", again, err)
	}
	if again := add(t, a, alice(), anEd); again.Comment != "my [1mnewlaptop" {
		t.Errorf("without a comment: %q", again.Comment)
	}
	key, _, _ := ParseKey(anEd)
	p, err := a.Check("alice", key)
	if err != nil {
		t.Fatal(err)
	}
	a.Used(p, netip.MustParseAddr("::ffff:192.0.2.7"))
	b := opened(t, cfg)
	if diff := cmp.Diff(a.Keys(alice()), b.Keys(alice())); diff != "" {
		t.Error(diff)
	}
	list := b.Keys(alice())
	if len(list) != 1 || list[0].Comment != "my [1mnewlaptop" || !list[0].Added.Equal(k.Added) || list[0].From != "192.0.2.7" || list[0].Used.IsZero() {
		t.Errorf("%+v", list)
	}
	if bobs := b.Keys(bob()); len(bobs) != 1 || !bobs[0].Used.IsZero() {
		t.Errorf("%+v", bobs)
	}
}

func TestRemoveKey(t *testing.T) {
	s := newMemory()
	a := opened(t, configOf(t, s))
	k := add(t, a, alice(), anEd)
	add(t, a, bob(), anEd)
	key, _, _ := ParseKey(anEd)
	hers, _ := a.Check("alice", key)
	his, _ := a.Check("bob", key)
	var gone []bool
	a.OnRevoke(func(is func(Pass) bool) { gone = append(gone, is(hers), is(his)) })
	if err := a.RemoveKey(t.Context(), Owner{Hub: "other", User: "alice"}, k.Fingerprint); !errs.Is(err, errs.NotFound) || gone != nil {
		t.Errorf("another hub's alice: %v", err)
	}
	s.broken = true
	if err := a.RemoveKey(t.Context(), alice(), k.Fingerprint); err == nil || !a.Holds(hers) {
		t.Errorf("not saved: %v", err)
	}
	s.broken = false
	if err := a.RemoveKey(t.Context(), alice(), k.Fingerprint); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]bool{true, false}, gone); diff != "" || a.Holds(hers) || !a.Holds(his) {
		t.Error(diff)
	}
	if _, err := a.Check("alice", key); !errs.Is(err, errs.Forbidden) {
		t.Errorf("%v", err)
	}
	if strings.Contains(s.text(), "alice") {
		t.Errorf("%s", s.text())
	}
}

func TestNotSavedIsNotAdded(t *testing.T) {
	s := newMemory()
	a := opened(t, configOf(t, s))
	s.broken = true
	if _, err := a.AddKey(t.Context(), alice(), anEd, ""); err == nil || len(a.Keys(alice())) != 0 {
		t.Errorf("%v", err)
	}
}

func TestKeyLimit(t *testing.T) {
	a := authority(t)
	for range keyLimit {
		add(t, a, alice(), plain(signer(t).PublicKey()))
	}
	if _, err := a.AddKey(t.Context(), alice(), anEd, ""); !errs.Is(err, errs.OverQuota) {
		t.Errorf("%v", err)
	}
	add(t, a, bob(), anEd)
	add(t, a, alice(), a.Keys(alice())[7].Public)
}

// TestUsedIsSavedSeldom: a thousand logins are not a thousand writes.
func TestUsedIsSavedSeldom(t *testing.T) {
	a := authority(t)
	add(t, a, alice(), anEd)
	key, _, _ := ParseKey(anEd)
	p, _ := a.Check("alice", key)
	synctest.Test(t, func(*testing.T) {
		home, work := netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("2001:db8::1")
		used := func() time.Time { return a.Keys(alice())[0].Used }
		a.Used(p, home)
		first := used()
		<-time.After(30 * time.Second)
		a.Used(p, home)
		if !used().Equal(first) {
			t.Error("saved again after half a minute")
		}
		a.Used(p, work)
		if used().Equal(first) || a.Keys(alice())[0].From != "2001:db8::1" {
			t.Error("another address is not saved")
		}
		a.Used(Pass{Owner: alice()}, home)
		a.Used(Pass{Owner: bob(), Key: p.Key}, home)
	})
}
