package sshauth

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"slipway/internal/devicelogin"
	"slipway/internal/errs"
)

func begin(t *testing.T, a *Authority, ask devicelogin.Ask) devicelogin.Login {
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
	l := begin(t, a, devicelogin.Ask{Hub: "main", Key: anEd, Computer: "laptop", Address: address(1)})
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
	if _, err := a.cfg.Logins.Find(Owner{Hub: "other", User: "alice"}, l.Code); !errs.Is(err, errs.NotFound) {
		t.Errorf("another hub's user: %v", err)
	}
	if _, err := a.cfg.Logins.Decide(alice(), l.Code, true); !errs.Is(err, errs.NotFound) {
		t.Errorf("decided without a look: %v", err)
	}
	w, err := a.cfg.Logins.Find(alice(), " "+strings.ToLower(strings.Replace(l.Code, "-", " ", 1))+"\n")
	if err != nil || w.Computer != "laptop" || w.Address != address(1) || !strings.HasPrefix(w.Fingerprint, "SHA256:") || w.Login != "" {
		t.Errorf("%+v, %v", w, err)
	}
	if found := a.cfg.Logins.Found(alice()); len(found) != 1 || found[0].Code != w.Code || found[0].Computer != w.Computer || len(a.cfg.Logins.Found(bob())) != 0 {
		t.Errorf("%+v", found)
	}
	if _, err := a.cfg.Logins.Find(bob(), l.Code); !errs.Is(err, errs.NotFound) {
		t.Errorf("two users for one login: %v", err)
	}
	if _, err := a.cfg.Logins.Decide(bob(), l.Code, true); !errs.Is(err, errs.NotFound) {
		t.Errorf("bob confirms what alice has found: %v", err)
	}
	pending()
	if _, err := a.cfg.Logins.Decide(alice(), l.Code, true); err != nil {
		t.Fatal(err)
	}
	if _, err := a.cfg.Logins.Decide(alice(), l.Code, false); !errs.Is(err, errs.NotFound) {
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
	l := begin(t, a, devicelogin.Ask{Key: anEd})
	if _, err := a.cfg.Logins.Find(alice(), l.Code); err != nil {
		t.Fatal(err)
	}
	if _, err := a.cfg.Logins.Decide(alice(), l.Code, true); err != nil {
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

func TestLoginWithABadKey(t *testing.T) {
	if _, err := authority(t).Begin(devicelogin.Ask{Key: dsa}); !errs.Is(err, errs.Invalid) {
		t.Errorf("%v", err)
	}
}

func TestLoginOfAName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &Authority{cfg: Config{Logins: devicelogin.New([]devicelogin.Page{{Hub: "main", URL: "https://x"}})}}
		l := begin(t, a, devicelogin.Ask{Login: "alice+gpu10"})
		if _, err := a.cfg.Logins.Find(bob(), l.Code); !errs.Is(err, errs.NotFound) {
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
		if _, err := a.cfg.Logins.Find(alice(), l.Code); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, err := a.cfg.Logins.Decide(alice(), l.Code, true); err != nil {
			t.Fatal(err)
		}
		if s := <-got; s.Pass != (Pass{Owner: alice(), Session: AnySession}) || s.Certificate.Serial != 0 {
			t.Errorf("%+v", s)
		}
	})
}
