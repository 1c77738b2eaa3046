package credentials

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/errs"
	"slipway/internal/oidc"
	"slipway/internal/secret"
	"slipway/internal/store"
	"slipway/internal/testenv/oidcissuer"
)

func TestCallsOfOneUserAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeIssuer(time.Hour)
		w := managerOver(t, newDisk(), secret.NewBox(), f)
		if _, err := w.PutRefresh(t.Context(), "alice", "wlcg", secret.New("alice/0")); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if e, err := w.Renew(t.Context(), "alice", "wlcg"); err != nil || e.Trouble != "" {
					t.Errorf("%+v, %v", e, err)
				}
			})
		}
		all.Wait()
		if len(f.calls) != 2 || len(f.doubled) > 0 {
			t.Errorf("%d calls", len(f.calls))
		}
	})
}

// TestNewRefreshTokenIsOnTheDiskFirst: whatever is done after the issuer's answer, a crash of the host finds the new
// token.
func TestNewRefreshTokenIsOnTheDiskFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, d, box := newFakeIssuer(time.Hour), newDisk(), secret.NewBox()
		w := managerOver(t, d, box, f)
		looked := 0
		f.check = func(got oidc.Tokens) error {
			looked++
			left := managerOver(t, d.crash(), box, f)
			c, err := left.open(left.records[key{"alice", "wlcg"}])
			if err != nil || c.Refresh != got.Refresh.Reveal() {
				t.Errorf("a crash would leave %q in place of %q: %v", c.Refresh, got.Refresh.Reveal(), err)
			}
			return nil
		}
		if _, err := w.PutRefresh(t.Context(), "alice", "wlcg", secret.New("alice/0")); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		if _, err := w.Renew(t.Context(), "alice", "wlcg"); err != nil || looked != 2 {
			t.Fatalf("%d: %v", looked, err)
		}
		f.check = nil
		again := managerOver(t, d.crash(), box, f)
		<-time.After(time.Minute)
		if e, err := again.Renew(t.Context(), "alice", "wlcg"); err != nil || e.Trouble != "" {
			t.Errorf("%+v, %v", e, err)
		}
	})
}

func TestFullDiskLosesNoToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, d := newFakeIssuer(time.Hour), newDisk()
		w := managerOver(t, d, secret.NewBox(), f)
		if _, err := w.PutRefresh(t.Context(), "alice", "wlcg", secret.New("alice/0")); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		d.full = true
		if _, err := w.Renew(t.Context(), "alice", "wlcg"); err == nil {
			t.Error("nobody was told that the disk is full")
		}
		d.full = false
		<-time.After(time.Minute)
		if e, err := w.Renew(t.Context(), "alice", "wlcg"); err != nil || e.Trouble != "" {
			t.Errorf("%+v, %v", e, err)
		}
	})
}

func TestIssuerDownForADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeIssuer(time.Hour)
		w := managerOver(t, newDisk(), secret.NewBox(), f)
		if _, err := w.PutRefresh(t.Context(), "alice", "wlcg", secret.New("alice/0")); err != nil {
			t.Fatal(err)
		}
		had := fileOf(t, w, "alice", "token")
		_, stop := w.Watch("alice")
		defer stop()
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan error)
		go func() { over <- w.Run(ctx) }()
		f.set(func() { f.down = errs.New(errs.Unavailable, "it does not answer") })
		<-time.After(50 * time.Minute)
		if e := entryOf(t, w, "alice"); !strings.Contains(e.Trouble, "does not answer") || !strings.Contains(e.Trouble, "holds until") || !e.Renewable {
			t.Errorf("nobody was told in time: %+v", e)
		}
		if fileOf(t, w, "alice", "token") != had {
			t.Error("the token was taken away while it held")
		}
		<-time.After(23 * time.Hour)
		if n := len(f.calls); n < 100 || n > 400 {
			t.Errorf("asked %d times in a day", n)
		}
		f.set(func() { f.down = nil })
		<-time.After(15 * time.Minute)
		if e := entryOf(t, w, "alice"); e.Trouble != "" || !e.Expires.After(time.Now()) {
			t.Errorf("%+v", e)
		}
		cancel()
		<-over
	})
}

func TestRefusedTokenIsNotTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeIssuer(time.Hour)
		w := managerOver(t, newDisk(), secret.NewBox(), f)
		if _, err := w.PutRefresh(t.Context(), "alice", "wlcg", secret.New("alice/0")); err != nil {
			t.Fatal(err)
		}
		_, stop := w.Watch("alice")
		defer stop()
		f.set(func() { f.last["alice"] = 99 })
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan error)
		go func() { over <- w.Run(ctx) }()
		<-time.After(5 * time.Hour)
		cancel()
		<-over
		if e := entryOf(t, w, "alice"); !strings.Contains(e.Trouble, "log in again") || e.Renewable || len(f.calls) != 2 {
			t.Errorf("%d calls, %+v", len(f.calls), e)
		}
		f.set(func() { f.last["alice"] = 5 })
		if e, err := w.PutRefresh(t.Context(), "alice", "wlcg", secret.New("alice/5")); err != nil || e.Trouble != "" || !e.Renewable {
			t.Errorf("%+v, %v", e, err)
		}
	})
}

func TestWhatIsNotSoundReplacesNothing(t *testing.T) {
	f := newFakeIssuer(time.Hour)
	f.takes = 0
	w := managerOver(t, newDisk(), secret.NewBox(), f)
	for _, bad := range []string{"", "two\nlines", strings.Repeat("x", 40<<10), "alice/7"} {
		if _, err := w.PutRefresh(t.Context(), "alice", "wlcg", secret.New(bad)); err == nil {
			t.Errorf("%.20q was taken", bad)
		}
	}
	if list, _ := w.List(t.Context(), "alice"); len(list) > 0 {
		t.Errorf("%+v", list)
	}
	if _, err := w.PutRefresh(t.Context(), "alice", "wlcg", secret.New("alice/0")); err != nil {
		t.Fatal(err)
	}
	had := fileOf(t, w, "alice", "token")
	f.check = func(oidc.Tokens) error { return errs.New(errs.Invalid, "expired") }
	if _, err := w.PutRefresh(t.Context(), "alice", "wlcg", secret.New("mallory/0")); err == nil {
		t.Error("an unsound token was taken")
	}
	if fileOf(t, w, "alice", "token") != had || entryOf(t, w, "alice").Trouble != "" {
		t.Error("what there was is gone")
	}
	if _, err := w.PutRefresh(t.Context(), "alice", "nowhere", secret.New("x")); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "wlcg") {
		t.Error(err)
	}
}

// hub is a Hub that has a token for alice.
type hub struct {
	mu    sync.Mutex
	token string
}

func (h *hub) set(token string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.token = token
}

func (h *hub) ask(_ context.Context, principal, issuer string) (secret.Text, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if principal != "alice" || issuer != "wlcg" {
		return secret.Text{}, errors.New("another")
	}
	return secret.New(h.token), nil
}

func TestHubsToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, h := newFakeIssuer(time.Hour), &hub{token: "alice/0"}
		w := managerOver(t, newDisk(), secret.NewBox(), f, func(c *Config) { c.Hub = h.ask })
		ctx := t.Context()
		w.Fresh(ctx, "alice")
		if e := entryOf(t, w, "alice"); e.From != FromHub || fileOf(t, w, "alice", "token") == "" {
			t.Fatalf("%+v", e)
		}
		w.Fresh(ctx, "alice")
		if len(f.calls) != 1 {
			t.Errorf("%d calls for what is fresh", len(f.calls))
		}
		f.set(func() { f.last["alice"] = 40 }) // she has logged in at the Hub again
		h.set("alice/40")
		<-time.After(time.Minute)
		if e, err := w.Renew(ctx, "alice", "wlcg"); err != nil || e.Trouble != "" {
			t.Errorf("the Hub's newer token was not taken: %+v, %v", e, err)
		}
		if err := w.Remove(ctx, "alice", "wlcg"); err != nil || len(f.revoked) != 1 {
			t.Errorf("%v, %v", f.revoked, err)
		}
		if w.Fresh(ctx, "alice"); fileOf(t, w, "alice", "token") != "" {
			t.Error("what was removed is taken from the Hub again")
		}
		f.set(func() { f.last["alice"] = 50 })
		h.set("alice/50")
		if w.Fresh(ctx, "alice"); fileOf(t, w, "alice", "token") == "" {
			t.Error("what is new at the Hub is not taken")
		}
	})
}

func TestRemove(t *testing.T) {
	f := newFakeIssuer(time.Hour)
	f.takes = 0
	w := managerOver(t, newDisk(), secret.NewBox(), f)
	if _, err := w.PutRefresh(t.Context(), "alice", "wlcg", secret.New("alice/0")); err != nil {
		t.Fatal(err)
	}
	changed, stop := w.Watch("alice")
	defer stop()
	if err := w.Remove(t.Context(), "bob", "wlcg"); !errs.Is(err, errs.NotFound) {
		t.Error(err)
	}
	if err := w.Remove(t.Context(), "alice", "wlcg"); err != nil || fmt.Sprint(f.revoked) != "[alice/1]" {
		t.Errorf("%v, %v", f.revoked, err)
	}
	<-changed
	if files, err := w.Files(t.Context(), "alice"); err != nil || len(files) > 0 {
		t.Errorf("%v, %v", files, err)
	}
}

func TestNarrowTokens(t *testing.T) {
	elements := func(c *Config) {
		c.Elements = []Element{{Name: "eos", Issuer: "wlcg", Audience: "https://eos"}, {Name: "other", Issuer: "elsewhere"}}
	}
	for _, exchange := range []bool{true, false} {
		f := newFakeIssuer(time.Hour)
		f.takes, f.exchange = 0, exchange
		w := managerOver(t, newDisk(), secret.NewBox(), f, elements)
		e, err := w.PutRefresh(t.Context(), "alice", "wlcg", secret.New("alice/0"))
		if err != nil {
			t.Fatal(err)
		}
		wide, eos := fileOf(t, w, "alice", "token"), fileOf(t, w, "alice", "token-eos")
		if exchange && (eos != "for https://eos "+wide || len(e.Notes) > 0) || !exchange && (eos != wide || !strings.Contains(strings.Join(e.Notes, ""), "all its scopes")) {
			t.Errorf("exchange %v: %q, %v", exchange, eos, e.Notes)
		}
		if fileOf(t, w, "alice", "token-other") != "" {
			t.Error("a token for an element of another issuer")
		}
	}
}

func TestProxy(t *testing.T) {
	ends := time.Now().Add(12 * time.Hour)
	w := managerOver(t, newDisk(), secret.NewBox(), newFakeIssuer(time.Hour), func(c *Config) {
		c.Proxy = func(_ context.Context, pem secret.Text) (Entry, secret.Text, error) {
			if pem.Reveal() != "good" {
				return Entry{}, secret.Text{}, errs.New(errs.Invalid, "a self-made CA")
			}
			return Entry{
				Facts: Facts{Subject: "CN=Alice", VO: "atlas", Expires: ends},
			}, secret.New("good, in order"), nil
		}
	})
	if _, err := w.PutProxy(t.Context(), "alice", secret.New("bad")); !errs.Is(err, errs.Invalid) {
		t.Error(err)
	}
	e, err := w.PutProxy(t.Context(), "alice", secret.New("good"))
	if err != nil || e.Name != ProxyName || e.VO != "atlas" || e.Trouble != "" || e.Renewable || fileOf(t, w, "alice", "x509") != "good, in order" {
		t.Errorf("%+v, %v", e, err)
	}
	r, _ := w.find(key{"alice", ProxyName})
	if s := w.trouble(r, ends.Add(-time.Hour)); !strings.Contains(s, "put a new one") {
		t.Errorf("%q an hour before its end", s)
	}
	if _, err := w.Renew(t.Context(), "alice", ProxyName); !errs.Is(err, errs.Invalid) {
		t.Error(err)
	}
}

func TestDeviceLogin(t *testing.T) {
	f := newFakeIssuer(time.Hour)
	f.takes = 0
	w := managerOver(t, newDisk(), secret.NewBox(), f)
	g, err := w.BeginDevice(t.Context(), "alice", "wlcg")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Device(t.Context(), "mallory", g.ID); !errs.Is(err, errs.NotFound) {
		t.Errorf("another user's login: %v", err)
	}
	for range 2 { // who asks again has the same answer
		if e, err := w.Device(t.Context(), "alice", g.ID); err != nil || e.From != FromDevice {
			t.Errorf("%+v, %v", e, err)
		}
	}
	var all sync.WaitGroup
	var begun, refused atomic.Int32
	for range 3 * mostGrants { // at once; what is done does not count
		all.Go(func() {
			switch _, err := w.BeginDevice(t.Context(), "alice", "wlcg"); {
			case err == nil:
				begun.Add(1)
			case errs.Is(err, errs.OverQuota):
				refused.Add(1)
			}
		})
	}
	all.Wait()
	if begun.Load() != mostGrants || refused.Load() != 2*mostGrants {
		t.Errorf("%d logins wait, %d were refused", begun.Load(), refused.Load())
	}
}

// moved is the same issuer at another address.
type moved struct{ Issuer }

func (moved) URL() string { return "https://mallory.example" }

func TestTokensGoToTheirIssuerAlone(t *testing.T) {
	f, d, box := newFakeIssuer(time.Hour), newDisk(), secret.NewBox()
	f.takes = 0
	if _, err := managerOver(t, d, box, f).PutRefresh(t.Context(), "alice", "wlcg", secret.New("alice/0")); err != nil {
		t.Fatal(err)
	}
	w := managerOver(t, d, box, moved{f})
	if _, err := w.Renew(t.Context(), "alice", "wlcg"); err != nil && !errs.Is(err, errs.Conflict) {
		t.Error(err)
	}
	w.records[key{"alice", "wlcg"}] = func(r record) record { r.Tried = time.Time{}; return r }(w.records[key{"alice", "wlcg"}])
	if _, err := w.Renew(t.Context(), "alice", "wlcg"); !errs.Is(err, errs.Conflict) || len(f.calls) != 1 {
		t.Errorf("%d calls, %v", len(f.calls), err)
	}
	if e := entryOf(t, w, "alice"); !strings.Contains(e.Trouble, "does not know its issuer") {
		t.Errorf("%+v", e)
	}
}

// TestWithTheRealParts goes through a life with an issuer that speaks HTTP and a store on the disk, in which no secret
// can be read.
func TestWithTheRealParts(t *testing.T) {
	i, file := oidcissuer.New(t), filepath.Join(t.TempDir(), "private", "records.db")
	client, err := oidc.New(oidc.Config{
		Name: "wlcg", URL: i.URL, ClientID: oidcissuer.ClientID, ClientSecret: secret.New(oidcissuer.ClientSecret), CA: i.CA,
	})
	if err != nil {
		t.Fatal(err)
	}
	box, ctx := secret.NewBox(), t.Context()
	eos := func(c *Config) {
		c.Elements = []Element{{"eos", "wlcg", "https://eos.example", []string{"storage.read:/data"}}}
	}
	open := func() (*store.Store, *Manager) {
		db, err := store.Open(ctx, file, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return db, managerOver(t, db, box, client, eos)
	}
	db, w := open()
	e, err := w.PutRefresh(ctx, "alice", "wlcg", secret.New(i.Grant("alice@example")))
	if err != nil || e.Subject != "alice@example" || e.Trouble != "" || len(e.Notes) > 0 {
		t.Fatalf("%+v, %v", e, err)
	}
	had := fileOf(t, w, "alice", "token-eos")
	for row, err := range db.All(ctx, bucket) {
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range i.Given() {
			if strings.Contains(string(row.Value), s) {
				t.Error("a record has a token in the clear")
			}
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db, w = open() // a restart
	defer db.Close()
	if fileOf(t, w, "alice", "token-eos") != had {
		t.Error("a restart has lost what workloads have")
	}
	if err := w.refresh(ctx, key{"alice", "wlcg"}, time.Now()); err != nil || fileOf(t, w, "alice", "token-eos") == had {
		t.Errorf("%v", err)
	}
	i.Withdraw("alice@example")
	if err := w.refresh(ctx, key{"alice", "wlcg"}, time.Now()); !oidc.Refused(err) || !strings.Contains(entryOf(t, w, "alice").Trouble, "log in again") {
		t.Errorf("%v", err)
	}
	g, err := w.BeginDevice(ctx, "alice", "wlcg")
	if err != nil {
		t.Fatal(err)
	}
	i.Confirm(g.Code, "alice@example")
	if e, err := w.Device(ctx, "alice", g.ID); err != nil || e.Trouble != "" || e.From != FromDevice {
		t.Errorf("%+v, %v", e, err)
	}
	if err := w.Remove(ctx, "alice", "wlcg"); err != nil || !i.Ended("alice@example") {
		t.Errorf("not revoked: %v", err)
	}
	other := managerOver(t, db, secret.NewBox(), client)
	if files, err := other.Files(ctx, "alice"); err != nil || len(files) > 0 {
		t.Errorf("%v, %v", files, err)
	}
}

// TestLoginAnewTakesNothingAway: what workloads have is theirs until there is something new, also when the host crashes
// on the way.
func TestLoginAnewTakesNothingAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, d, box := newFakeIssuer(time.Hour), newDisk(), secret.NewBox()
		w := managerOver(t, d, box, f)
		give(t, w, "alice", "alice/0")
		had, looked := fileOf(t, w, "alice", "token"), false
		f.check = func(oidc.Tokens) error {
			looked = true
			left := managerOver(t, d.crash(), box, f)
			if fileOf(t, w, "alice", "token") != had || fileOf(t, left, "alice", "token") != had || entryOf(t, left, "alice").Subject != "alice" {
				t.Error("a login takes a token away that holds")
			}
			return nil
		}
		f.set(func() { f.last["alice"] = 30 })
		give(t, w, "alice", "alice/30")
		if !looked || fileOf(t, w, "alice", "token") == had {
			t.Error("what is new is not taken")
		}
	})
}

// TestWrongKeyEndsNoLogin: with the right key again, all is as before.
func TestWrongKeyEndsNoLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, d, box := newFakeIssuer(time.Hour), newDisk(), secret.NewBox()
		give(t, managerOver(t, d, box, f), "alice", "alice/0")
		wrong := managerOver(t, d, secret.NewBox(), f)
		stop := runs(t, wrong.Run)
		_, unwatch := wrong.Watch("alice")
		<-time.After(2 * time.Hour)
		if e := entryOf(t, wrong, "alice"); !strings.Contains(e.Trouble, "cannot be opened") || !e.Renewable {
			t.Errorf("nobody was told, or it is given up: %+v", e)
		}
		unwatch()
		stop()
		w := managerOver(t, d, box, f)
		defer runs(t, w.Run)()
		<-time.After(longWait)
		if e := entryOf(t, w, "alice"); e.Trouble != "" || !e.Expires.After(time.Now()) {
			t.Errorf("%+v", e)
		}
	})
}

func TestWhatIsRemovedDoesNotComeBack(t *testing.T) {
	f, d, box := newFakeIssuer(time.Hour), newDisk(), secret.NewBox()
	f.takes = 0
	w := managerOver(t, d, box, f)
	give(t, w, "alice", "alice/0")
	if err := w.Remove(t.Context(), "alice", "wlcg"); err != nil {
		t.Fatal(err)
	}
	if fileOf(t, managerOver(t, d.crash(), box, f), "alice", "token") != "" {
		t.Error("a crash of the host brings a removed credential back")
	}
}

func TestAnothersAccountIsNotTaken(t *testing.T) {
	f := newFakeIssuer(time.Hour)
	f.takes = 0
	w := managerOver(t, newDisk(), secret.NewBox(), f)
	give(t, w, "alice", "alice/0")
	give(t, w, "bob", "bob/0")
	had := fileOf(t, w, "bob", "token")
	if _, err := w.PutRefresh(t.Context(), "bob", "wlcg", secret.New("carol/0")); err == nil {
		t.Error("bob has become carol without removing his own")
	}
	if _, err := w.PutRefresh(t.Context(), "dave", "wlcg", secret.New("alice/1")); !errs.Is(err, errs.Forbidden) {
		t.Errorf("dave has alice's account: %v", err)
	}
	if list, _ := w.List(t.Context(), "dave"); len(list) > 0 || fileOf(t, w, "bob", "token") != had {
		t.Errorf("%+v", list)
	}
}

func TestHubsTokenThatIsRefusedIsSentOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, h := newFakeIssuer(time.Hour), &hub{token: "alice/7"}
		w := managerOver(t, newDisk(), secret.NewBox(), f, func(c *Config) { c.Hub = h.ask })
		for range 3 {
			w.Fresh(t.Context(), "alice")
			<-time.After(time.Minute)
		}
		if list, _ := w.List(t.Context(), "alice"); len(f.calls) != 1 || len(list) > 0 {
			t.Errorf("%d calls, %+v", len(f.calls), list)
		}
		f.set(func() { f.last["alice"] = 9 })
		h.set("alice/9")
		if w.Fresh(t.Context(), "alice"); fileOf(t, w, "alice", "token") == "" {
			t.Error("what is new at the Hub is not taken")
		}
	})
}
