package sshauth

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/errs"
)

func begin(t *testing.T, a *Authority, ask Ask) Login {
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

func TestLoginGivesACertificate(t *testing.T) {
	a := authority(t)
	l := begin(t, a, Ask{Hub: "main", Key: anEd, Computer: "laptop", Address: address(1)})
	if len(l.Code) != 9 || strings.ContainsAny(l.Code, "AEIOUY") || len(l.ID) < 26 || len(l.Pages) != 1 || l.Pages[0].Hub != "main" {
		t.Errorf("%+v", l)
	}
	pending := func() {
		t.Helper()
		if s, err := a.Poll(t.Context(), l.ID); err != nil || !s.Pending {
			t.Errorf("%+v, %v", s, err)
		}
	}
	pending()
	if _, err := a.Find(Owner{"other", "alice"}, l.Code); !errs.Is(err, errs.NotFound) {
		t.Errorf("another hub's user: %v", err)
	}
	if _, err := a.Decide(alice(), l.Code, true); !errs.Is(err, errs.NotFound) {
		t.Errorf("decided without a look: %v", err)
	}
	w, err := a.Find(alice(), " "+strings.ToLower(strings.Replace(l.Code, "-", " ", 1))+"\n")
	if err != nil || w.Computer != "laptop" || w.Address != address(1) || !strings.HasPrefix(w.Fingerprint, "SHA256:") || w.Login != "" {
		t.Errorf("%+v, %v", w, err)
	}
	if found := a.Found(alice()); len(found) != 1 || found[0] != w || len(a.Found(bob())) != 0 {
		t.Errorf("%+v", found)
	}
	if _, err := a.Find(bob(), l.Code); !errs.Is(err, errs.NotFound) {
		t.Errorf("two users for one login: %v", err)
	}
	if _, err := a.Decide(bob(), l.Code, true); !errs.Is(err, errs.NotFound) {
		t.Errorf("bob confirms what alice has found: %v", err)
	}
	pending()
	if _, err := a.Decide(alice(), l.Code, true); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Decide(alice(), l.Code, false); !errs.Is(err, errs.NotFound) {
		t.Errorf("decided twice: %v", err)
	}
	s, err := a.Poll(t.Context(), l.ID)
	if err != nil || s.Pending || s.Pass.Owner != alice() || s.Certificate.Text == "" || s.Certificate.Computer != "laptop" {
		t.Fatalf("%+v, %v", s, err)
	}
	if p, err := a.Check("alice", parsed(t, s.Certificate.Text)); err != nil || p != s.Pass {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := a.Poll(t.Context(), l.ID); !errs.Is(err, errs.NotFound) {
		t.Errorf("given twice: %v", err)
	}
}

// TestOneOfManyPolls: however many ask at once, one gets the certificate.
func TestOneOfManyPolls(t *testing.T) {
	a := authority(t)
	l := begin(t, a, Ask{Key: anEd})
	if _, err := a.Find(alice(), l.Code); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Decide(alice(), l.Code, true); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { _, _ = a.Poll(t.Context(), l.ID) })
	}
	all.Wait()
	if n := len(a.Certificates(alice())); n != 1 {
		t.Errorf("%d certificates", n)
	}
}

func TestLoginOfAName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &Authority{logins: newLogins(), cfg: Config{Pages: []Page{{"main", "https://x"}}}}
		l := begin(t, a, Ask{Login: "alice+gpu10"})
		if _, err := a.Find(bob(), l.Code); !errs.Is(err, errs.NotFound) {
			t.Errorf("bob lets somebody in as alice: %v", err)
		}
		got := make(chan State)
		go func() {
			s, err := a.Await(t.Context(), l.ID)
			if err != nil {
				t.Error(err)
			}
			got <- s
		}()
		if _, err := a.Find(alice(), l.Code); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, err := a.Decide(alice(), l.Code, true); err != nil {
			t.Fatal(err)
		}
		if s := <-got; s.Pass != (Pass{Owner: alice(), Session: AnySession}) || s.Certificate.Serial != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestLoginRefusedOrOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &Authority{logins: newLogins(), cfg: Config{Pages: []Page{{"main", "https://x"}}}}
		no := begin(t, a, Ask{})
		if _, err := a.Find(alice(), no.Code); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Decide(alice(), no.Code, false); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := a.Await(t.Context(), no.ID); !errs.Is(err, errs.Forbidden) {
				t.Errorf("refused: %v", err)
			}
		}
		late := begin(t, a, Ask{})
		if _, err := a.Await(t.Context(), late.ID); !errs.Is(err, errs.NotFound) || time.Until(late.Expires) > 0 {
			t.Errorf("over: %v", err)
		}
		if _, err := a.Find(bob(), late.Code); !errs.Is(err, errs.NotFound) || len(a.logins.byID) != 0 {
			t.Errorf("over: %v", err)
		}
		if _, err := a.Poll(t.Context(), "unknown"); !errs.Is(err, errs.NotFound) {
			t.Errorf("unknown: %v", err)
		}
		if _, err := a.Begin(Ask{Hub: "nowhere"}); !errs.Is(err, errs.Invalid) {
			t.Errorf("an unknown hub: %v", err)
		}
		if _, err := a.Begin(Ask{Key: dsa}); !errs.Is(err, errs.Invalid) {
			t.Errorf("a bad key: %v", err)
		}
	})
}

// TestLoginLimits: who begins many logins pushes out her own, and those that nobody has looked at; never who has typed
// a code, and never those that begin at the gateway.
func TestLoginLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &Authority{logins: newLogins(), cfg: Config{Pages: []Page{{"main", "https://x"}}}}
		one, same, local := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2"), netip.MustParseAddr("127.0.0.1")
		waits := func(l Login) bool { s, err := a.Poll(t.Context(), l.ID); return err == nil && s.Pending }
		ask := func(from netip.Addr) Login {
			t.Helper()
			<-time.After(time.Millisecond)
			return begin(t, a, Ask{Key: anEd, Address: from})
		}
		gateway, typed, unseen := begin(t, a, Ask{Login: "alice", Address: one}), ask(one), ask(one)
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
		if last := ask(address(1)); !waits(typed) || !waits(last) || !waits(gateway) || len(a.logins.byID) != loginLimit+1 {
			t.Errorf("%d wait", len(a.logins.byID))
		}
	})
}

// TestLoginFloodIsItsOwn: who comes from many addresses of one network, or of none that is known, pushes out nobody
// else's.
func TestLoginFloodIsItsOwn(t *testing.T) {
	for name, from := range map[string]func(i int) Ask{
		"one address": func(int) Ask { return Ask{Key: anEd, Address: address(1)} },
		"a /48": func(i int) Ask {
			return Ask{Key: anEd, Address: netip.MustParseAddr(fmt.Sprintf("2001:db8:0:%x::1", i))}
		},
		"an untold origin":    func(int) Ask { return Ask{Key: anEd} },
		"behind a proxy":      func(int) Ask { return Ask{Key: anEd, Peer: netip.MustParseAddr("127.0.0.1")} },
		"the proxy's address": func(int) Ask { return Ask{Key: anEd, Peer: address(1)} },
	} {
		synctest.Test(t, func(t *testing.T) {
			a := &Authority{logins: newLogins(), cfg: Config{Pages: []Page{{"main", "https://x"}}}}
			var others []Login
			for i := range 20 {
				others = append(others, begin(t, a, Ask{Key: anEd, Address: netip.MustParseAddr(fmt.Sprintf("198.51.%d.7", i))}))
			}
			for i := range 2 * loginLimit {
				if i%100 == 0 {
					<-time.After(time.Millisecond)
				}
				begin(t, a, from(i))
			}
			for i, l := range others {
				if s, err := a.Poll(t.Context(), l.ID); err != nil || !s.Pending {
					t.Errorf("%s: the login of the %dth other is gone: %v", name, i, err)
				}
			}
		})
	}
}

// TestTypedLoginsStay: where all of a source's were typed, one more is refused.
func TestTypedLoginsStay(t *testing.T) {
	a := &Authority{logins: newLogins(), cfg: Config{Pages: []Page{{"main", "https://x"}}}}
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
		a := &Authority{logins: newLogins(), cfg: Config{Pages: []Page{{"main", "https://x"}}}}
		first, over := begin(t, a, Ask{Address: address(1)}), make(chan error)
		go func() {
			_, err := a.Await(t.Context(), first.ID)
			over <- err
		}()
		synctest.Wait()
		for range sourceLimit {
			<-time.After(time.Millisecond)
			begin(t, a, Ask{Address: address(1)})
		}
		if err := <-over; !errs.Is(err, errs.NotFound) || time.Until(first.Expires) < time.Minute {
			t.Errorf("%v", err)
		}
	})
}

func TestGuesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &Authority{logins: newLogins(), cfg: Config{Pages: []Page{{"main", "https://x"}}}}
		for range guessLimit {
			if _, err := a.Find(alice(), "BBBB-BBBB"); !errs.Is(err, errs.NotFound) {
				t.Errorf("%v", err)
			}
			<-time.After(time.Second)
		}
		l := begin(t, a, Ask{})
		if _, err := a.Find(alice(), l.Code); !errs.Is(err, errs.OverQuota) {
			t.Errorf("after many guesses: %v", err)
		}
		if _, err := a.Find(bob(), l.Code); err != nil {
			t.Errorf("another user: %v", err)
		}
		<-time.After(guessTime)
		l = begin(t, a, Ask{})
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
