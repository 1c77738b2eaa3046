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

// narrowing is a wallet whose issuer exchanges tokens for storage elements.
func narrowing(t *testing.T, elements ...string) (*fakeIssuer, *Manager) {
	f := newFakeIssuer(time.Hour)
	f.exchange = true
	return f, managerOver(t, newDisk(), secret.NewBox(), f, func(c *Config) {
		for _, name := range elements {
			c.Elements = append(c.Elements, Element{Name: name, Issuer: "wlcg", Audience: "https://" + name, Scopes: []string{"storage.read:/eos"}})
		}
	})
}

func give(t *testing.T, w *Manager, principal, token string) {
	t.Helper()
	if _, err := w.PutRefresh(t.Context(), principal, "wlcg", secret.New(token)); err != nil {
		t.Fatal(err)
	}
}

func TestExchangeThatIsDownRefreshesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, w := narrowing(t, "eos", "desy")
		f.shut = errs.New(errs.Unavailable, "HTTP status 503")
		give(t, w, "alice", "alice/0")
		stop := runs(t, w.Run)
		_, unwatch := w.Watch("alice")
		<-time.After(25 * time.Minute)
		f.set(func() {
			if len(f.calls) != 1 || f.swaps < 3 || f.swaps > 12 {
				t.Errorf("%d refreshes, %d exchanges", len(f.calls), f.swaps)
			}
		})
		if e := entryOf(t, w, "alice"); !strings.Contains(e.Trouble, "storage elements could not be had") || !strings.Contains(e.Trouble, "503") {
			t.Errorf("nobody was told: %+v", e)
		}
		f.set(func() { f.shut = nil })
		<-time.After(longWait)
		if e := entryOf(t, w, "alice"); e.Trouble != "" || fileOf(t, w, "alice", "token-eos") == "" || fileOf(t, w, "alice", "token-desy") == "" || len(f.calls) > 2 {
			t.Errorf("%d refreshes, %+v", len(f.calls), e)
		}
		unwatch()
		stop()
	})
}

func TestSlowExchangeHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, w := narrowing(t, "eos", "desy")
		f.swapTakes = 20 * time.Second
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan error, 1)
		go func() {
			_, err := w.PutRefresh(ctx, "alice", "wlcg", secret.New("alice/0"))
			over <- err
		}()
		<-time.After(time.Second)
		if fileOf(t, w, "alice", "token") == "" {
			t.Error("the main token waits for those of storage elements")
		}
		begun := time.Now()
		cancel()
		if err := <-over; err != nil || time.Since(begun) > time.Second {
			t.Errorf("it went on for %v: %v", time.Since(begun), err)
		}
		stop := runs(t, w.Run)
		_, unwatch := w.Watch("alice")
		<-time.After(3 * time.Minute)
		if fileOf(t, w, "alice", "token-desy") == "" || len(f.calls) != 1 {
			t.Errorf("what was left undone is not made good: %d refreshes", len(f.calls))
		}
		unwatch()
		stop()
	})
}

func TestExchangeThatDoesNotNarrowIsNoted(t *testing.T) {
	f, w := narrowing(t, "eos")
	f.takes = 0
	give(t, w, "alice", "alice/0")
	if e := entryOf(t, w, "alice"); len(e.Notes) > 0 {
		t.Errorf("%q", e.Notes)
	}
	f.wants = "storage.modify:/"
	give(t, w, "bob", "bob/0")
	if e := entryOf(t, w, "bob"); !strings.Contains(strings.Join(e.Notes, ""), "more than was asked for: scope storage.modify:/") {
		t.Errorf("%q", e.Notes)
	}
}

func TestWithin(t *testing.T) {
	for _, c := range []struct {
		scope, asked string
		want         bool
	}{
		{"storage.read:/eos", "storage.read:/eos", true}, {"storage.read:/eos/a", "storage.read:/eos", true}, {"storage.read:/a", "storage.read:/", true},
		{"storage.read:/eosx", "storage.read:/eos", false}, {"storage.read:/", "storage.read:/eos", false}, {"openid/x", "openid", false},
	} {
		if within(c.scope, c.asked) != c.want {
			t.Errorf("%+v", c)
		}
	}
}
