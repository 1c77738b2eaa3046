package credentials

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/errs"
	"slipway/internal/secret"
)

// TestWhose: what is another's by the site's rules comes in by no way, and is given to nobody once the rules have
// changed.
func TestWhose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, box, f := newDisk(), secret.NewBox(), newFakeIssuer(time.Hour)
		strict := true
		rules := func(c *Config) {
			c.Whose = func(principal string, h Holder) (string, error) {
				who := h.Claims["sub"]
				if h.Kind == Proxy {
					who = strings.TrimPrefix(h.Name, "CN=")
				}
				if strict && who != principal {
					return "", errs.New(errs.Forbidden, "%s is not %s", who, principal)
				}
				return "by name", nil
			}
			c.Proxy = func(_ context.Context, pem secret.Text) (Entry, secret.Text, error) {
				return Entry{Facts: Facts{Subject: "CN=" + pem.Reveal(), Expires: time.Now().Add(time.Hour)}}, pem, nil
			}
			c.Hub = func(context.Context, string, string) (secret.Text, error) { return secret.New("mallory/0"), nil }
		}
		w := managerOver(t, d, box, f, rules)
		ctx := t.Context()
		given := func(who string) error {
			_, err := w.PutRefresh(ctx, "alice", "wlcg", secret.New(who+"/0"))
			return err
		}
		g, err := w.BeginDevice(ctx, "alice", "wlcg")
		if err != nil {
			t.Fatal(err)
		}
		_, device := w.Device(ctx, "alice", g.ID)
		_, put := w.PutProxy(ctx, "alice", secret.New("mallory"))
		_, renewed := w.RenewProxy(ctx, "alice", secret.New("mallory"))
		for door, err := range map[string]error{"given": given("mallory"), "device": device, "put": put, "from a session": renewed} {
			if !errs.Is(err, errs.Forbidden) {
				t.Errorf("%s: %v", door, err)
			}
		}
		w.Seek(ctx, "alice") // the Hub has mallory's
		if list, _ := w.List(ctx, "alice"); len(list) != 0 {
			t.Errorf("alice has %+v", list)
		}
		if err := given("alice"); err != nil {
			t.Fatal(err)
		}
		if e := entryOf(t, w, "alice"); e.Rule != "by name" || e.Trouble != "" {
			t.Errorf("%+v", e)
		}
		strict = false
		if _, err := w.PutRefresh(ctx, "bob", "wlcg", secret.New("carol/0")); err != nil {
			t.Fatal(err)
		}
		strict = true
		if e := entryOf(t, w, "bob"); fileOf(t, w, "bob", "token") != "" || fileOf(t, w, "alice", "token") == "" || !strings.Contains(e.Trouble, "carol is not bob") {
			t.Errorf("the rules have changed: bob has %q, %+v", fileOf(t, w, "bob", "token"), e)
		}
	})
}

// TestRulesThatCannotBeAsked take nothing away from who has it, and let nothing new in; nobody waits for them but who
// asks.
func TestRulesThatCannotBeAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var silent error
		asked, answer := make(chan struct{}, 1), make(chan struct{})
		close(answer)
		w := managerOver(t, newDisk(), secret.NewBox(), newFakeIssuer(time.Hour), func(c *Config) {
			c.Whose = func(string, Holder) (string, error) {
				select {
				case asked <- struct{}{}:
				default:
				}
				<-answer
				return "", silent
			}
			c.Proxy = func(_ context.Context, pem secret.Text) (Entry, secret.Text, error) {
				return Entry{Facts: Facts{Subject: "/CN=alice", Expires: time.Now().Add(time.Hour)}}, pem, nil
			}
		})
		if _, err := w.PutProxy(t.Context(), "alice", secret.New("pem")); err != nil {
			t.Fatal(err)
		}
		silent = errs.New(errs.Unavailable, "the file is not there")
		if e := entryOf(t, w, "alice"); fileOf(t, w, "alice", ProxyName) == "" || !strings.Contains(e.Trouble, "the file is not there") || w.Stats().Trouble[ProxyName] != 1 {
			t.Errorf("alice's own is taken away, or nobody says why it could be: %+v", e)
		}
		if _, err := w.PutProxy(t.Context(), "bob", secret.New("pem")); !errs.Is(err, errs.Unavailable) {
			t.Errorf("bob's comes in: %v", err)
		}
		answer = make(chan struct{})
		<-asked
		counted := make(chan struct{})
		go func() { defer close(counted); w.Stats() }()
		<-asked
		if w.mu.TryLock() {
			w.mu.Unlock()
		} else {
			t.Error("all wait for who counts")
		}
		close(answer)
		<-counted
	})
}
