package devicelogin

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/errs"
)

func begin(t *testing.T, a *Logins, ask Ask) Login {
	t.Helper()
	l, err := a.Begin(ask)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func address(n int) netip.Addr {
	return netip.MustParseAddr(fmt.Sprintf("192.0.%d.%d", n/250, n%250+1))
}

func TestLoginRefusedOrOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New([]Page{{"main", "https://x"}})
		no := begin(t, a, Ask{Purpose: SSHConnection})
		if _, err := a.Find(alice(), no.Code); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Decide(alice(), no.Code, false); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := a.Wait(t.Context(), no.ID); err != nil {
				t.Fatal(err)
			}
			if _, _, err := a.Take(no.ID, SSHConnection); !errs.Is(err, errs.Forbidden) {
				t.Errorf("refused: %v", err)
			}
		}
		late := begin(t, a, Ask{Purpose: SSHConnection})
		if err := a.Wait(t.Context(), late.ID); err != nil || time.Until(late.Expires) > 0 {
			t.Errorf("over: %v", err)
		}
		if _, _, err := a.Take(late.ID, SSHConnection); !errs.Is(err, errs.NotFound) {
			t.Errorf("over: %v", err)
		}
		if _, err := a.Find(bob(), late.Code); !errs.Is(err, errs.NotFound) || len(a.byID) != 0 {
			t.Errorf("over: %v", err)
		}
		if _, _, err := a.Take("unknown", SSHConnection); !errs.Is(err, errs.NotFound) {
			t.Errorf("unknown: %v", err)
		}
		if _, err := a.Begin(Ask{Hub: "nowhere"}); !errs.Is(err, errs.Invalid) {
			t.Errorf("an unknown hub: %v", err)
		}
	})
}

// TestLoginLimits: who begins many logins pushes out her own, and those that nobody has looked at; never who has typed
// a code, and never those that begin at the gateway.
func TestLoginLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New([]Page{{"main", "https://x"}})
		one, same, local := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2"), netip.MustParseAddr("127.0.0.1")
		waits := func(l Login) bool {
			_, decided, err := a.Take(l.ID, SSHConnection, SSHCertificate)
			return err == nil && !decided
		}
		ask := func(from netip.Addr) Login {
			t.Helper()
			<-time.After(time.Millisecond)
			return begin(t, a, Ask{Purpose: SSHCertificate, Address: from})
		}
		gateway, typed, unseen := begin(t, a, Ask{Purpose: SSHConnection, Address: one}), ask(one), ask(one)
		if _, err := a.Find(alice(), typed.Code); err != nil {
			t.Fatal(err)
		}
		for range sourceLimit - 2 {
			ask(one)
		}
		if !waits(unseen) {
			t.Error("gone though there is room")
		}
		if latest := ask(same); waits(unseen) || !waits(typed) || !waits(latest) || !waits(gateway) {
			t.Error("not the oldest of the network is gone")
		}
		for range loginLimit {
			ask(local)
		}
		for range loginLimit {
			ask(netip.Addr{})
		}
		if last := ask(address(1)); !waits(typed) || !waits(last) || !waits(gateway) || len(a.byID) != loginLimit+1 {
			t.Errorf("%d wait", len(a.byID))
		}
	})
}

// TestLoginFloodIsItsOwn: who comes from many addresses of one network, or of none that is known, pushes out nobody
// else's.
func TestLoginFloodIsItsOwn(t *testing.T) {
	for name, from := range map[string]func(i int) Ask{
		"one address": func(int) Ask { return Ask{Purpose: SSHCertificate, Address: address(1)} },
		"a /48": func(i int) Ask {
			return Ask{Purpose: SSHCertificate, Address: netip.MustParseAddr(fmt.Sprintf("2001:db8:0:%x::1", i))}
		},
		"an untold origin":    func(int) Ask { return Ask{Purpose: SSHCertificate} },
		"behind a proxy":      func(int) Ask { return Ask{Purpose: SSHCertificate, Peer: netip.MustParseAddr("127.0.0.1")} },
		"the proxy's address": func(int) Ask { return Ask{Purpose: SSHCertificate, Peer: address(1)} },
	} {
		synctest.Test(t, func(t *testing.T) {
			a := New([]Page{{"main", "https://x"}})
			var others []Login
			for i := range 20 {
				others = append(others, begin(t, a, Ask{Purpose: SSHCertificate, Address: netip.MustParseAddr(fmt.Sprintf("198.51.%d.7", i))}))
			}
			for i := range 2 * loginLimit {
				if i%100 == 0 {
					<-time.After(time.Millisecond)
				}
				begin(t, a, from(i))
			}
			for i, l := range others {
				if _, decided, err := a.Take(l.ID, SSHCertificate); err != nil || decided {
					t.Errorf("%s: the login of the %dth other is gone: %v", name, i, err)
				}
			}
		})
	}
}

// TestTypedLoginsStay: where all of a source's were typed, one more is refused.
func TestTypedLoginsStay(t *testing.T) {
	a := New([]Page{{"main", "https://x"}})
	for range sourceLimit {
		if _, err := a.Find(alice(), begin(t, a, Ask{Address: address(1)}).Code); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.Begin(Ask{Address: address(1)}); !errs.Is(err, errs.OverQuota) {
		t.Errorf("%v", err)
	}
	begin(t, a, Ask{Address: address(2)})
}

// TestPushedOutIsTold: who awaits a login that has made room does not wait on.
func TestPushedOutIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New([]Page{{"main", "https://x"}})
		first, over := begin(t, a, Ask{Purpose: SSHConnection, Address: address(1)}), make(chan error)
		go func() {
			if err := a.Wait(t.Context(), first.ID); err != nil {
				t.Error(err)
			}
			_, _, err := a.Take(first.ID, SSHConnection)
			over <- err
		}()
		synctest.Wait()
		for range sourceLimit {
			<-time.After(time.Millisecond)
			begin(t, a, Ask{Purpose: SSHConnection, Address: address(1)})
		}
		if err := <-over; !errs.Is(err, errs.NotFound) || time.Until(first.Expires) < time.Minute {
			t.Errorf("%v", err)
		}
	})
}

func TestGuesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New([]Page{{"main", "https://x"}})
		for range guessLimit {
			if _, err := a.Find(alice(), "BBBB-BBBB"); !errs.Is(err, errs.NotFound) {
				t.Errorf("%v", err)
			}
			<-time.After(time.Second)
		}
		l := begin(t, a, Ask{Purpose: SSHConnection})
		if _, err := a.Find(alice(), l.Code); !errs.Is(err, errs.OverQuota) {
			t.Errorf("after many guesses: %v", err)
		}
		if _, err := a.Find(bob(), l.Code); err != nil {
			t.Errorf("another user: %v", err)
		}
		<-time.After(guessTime)
		l = begin(t, a, Ask{Purpose: SSHConnection})
		if _, err := a.Find(alice(), l.Code); err != nil {
			t.Errorf("later: %v", err)
		}
	})
}

func TestCodes(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		c := newCode()
		if len(c) != codeLength || strings.Trim(c, letters) != "" || seen[c] || read(strings.ToLower(spaced(c))) != c {
			t.Fatalf("%q", c)
		}
		seen[c] = true
	}
}

func alice() Owner { return Owner{"main", "alice"} }
func bob() Owner   { return Owner{"main", "bob"} }

// TestLooks: who looks too soon is to wait longer, each time.
func TestLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New([]Page{{"main", "https://x"}})
		l := begin(t, a, Ask{Purpose: AccessToken})
		for n, tc := range []struct{ after, interval time.Duration }{
			{0, loginInterval}, {loginInterval, loginInterval}, {time.Second, loginInterval + slowDown},
			{loginInterval, loginInterval + 2*slowDown}, {loginInterval + 2*slowDown, loginInterval + 2*slowDown},
		} {
			<-time.After(tc.after)
			slow := n == 2 || n == 3
			if interval, inTime := a.Looked(l.ID); interval != tc.interval || inTime == slow {
				t.Errorf("look %d: %s, %v", n, interval, inTime)
			}
		}
		if interval, inTime := a.Looked("unknown"); interval != loginInterval || !inTime {
			t.Errorf("unknown: %s, %v", interval, inTime)
		}
	})
}

// TestOnceAndForItsPurpose: what is confirmed is taken once, by who asks for a login of its purpose; and again where
// what it was taken for has failed.
func TestOnceAndForItsPurpose(t *testing.T) {
	a := New([]Page{{"main", "https://x"}})
	l := begin(t, a, Ask{Purpose: AccessToken, Computer: " lap\x1btop\n", Program: strings.Repeat("x", 200)})
	w, err := a.Find(alice(), l.Code)
	if err != nil || w.Computer != "laptop" || len(w.Program) != labelLimit || w.Purpose != AccessToken {
		t.Fatalf("%+v, %v", w, err)
	}
	if _, decided, err := a.Take(l.ID, AccessToken); err != nil || decided {
		t.Errorf("before it is confirmed: %v, %v", decided, err)
	}
	if _, err := a.Decide(alice(), l.Code, true); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Find(alice(), l.Code); !errs.Is(err, errs.NotFound) {
		t.Errorf("a code that was used: %v", err)
	}
	if _, _, err := a.Take(l.ID, SSHConnection, SSHCertificate); !errs.Is(err, errs.NotFound) {
		t.Errorf("taken for another purpose: %v", err)
	}
	c, ok, err := a.Take(l.ID, AccessToken)
	if err != nil || !ok || c.Owner != alice() {
		t.Fatalf("%+v, %v, %v", c, ok, err)
	}
	if _, _, err := a.Take(l.ID, AccessToken); !errs.Is(err, errs.NotFound) {
		t.Errorf("taken twice: %v", err)
	}
	a.PutBack(c)
	if _, ok, err := a.Take(l.ID, AccessToken); err != nil || !ok {
		t.Errorf("put back: %v, %v", ok, err)
	}
}

func TestSource(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.7": "192.0.2.7/32", "::ffff:192.0.2.7": "192.0.2.7/32", "2001:db8::1:2:3:4": "2001:db8::/64", "fe80::1%eth0": "fe80::/64",
	} {
		if got := Source(netip.MustParseAddr(address)); got.String() != want {
			t.Errorf("%s: %s", address, got)
		}
	}
	if got := Source(netip.Addr{}); got.IsValid() {
		t.Errorf("%s", got)
	}
}
