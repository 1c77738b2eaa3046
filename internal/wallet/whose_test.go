package wallet

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/errs"
	"slipway/internal/secret"
)

// TestWhose: what is another's by the site's rules comes in by no way, and is given to nobody once the rules have changed.
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
				return Entry{Subject: "CN=" + pem.Reveal(), Expires: time.Now().Add(time.Hour)}, pem, nil
			}
			c.Hub = func(context.Context, string, string) (secret.Text, error) { return secret.New("mallory/0"), nil }
		}
		w := walletOver(t, d, box, f, rules)
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
