package accesstokens

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/devicelogin"
	"slipway/internal/errs"
	"slipway/internal/store"
)

var _ Store = (*store.Store)(nil)

func alice() Owner { return Owner{Hub: "main", User: "alice"} }
func bob() Owner   { return Owner{Hub: "main", User: "bob"} }

// hub knows everybody, unless it says something else.
type hub struct {
	asked atomic.Int32
	gone  atomic.Bool
	down  atomic.Bool
}

func (h *hub) known(context.Context, Owner) (bool, error) {
	h.asked.Add(1)
	if h.down.Load() {
		return false, errs.New(errs.Unavailable, "the Hub is down")
	}
	return !h.gone.Load(), nil
}

// newStore opens a store, whose file it names.
func newStore(t *testing.T) (db *store.Store, file string) {
	t.Helper()
	file = t.TempDir() + "/records/s.db"
	db, err := store.Open(t.Context(), file, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db, file
}

func opened(t *testing.T, db Store, h *hub) *Tokens {
	t.Helper()
	tokens, err := New(t.Context(), Config{Store: db, Known: h.known, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

func issue(t *testing.T, tokens *Tokens, o Owner) (id, text string) {
	t.Helper()
	made, secret, err := tokens.Issue(t.Context(), devicelogin.Confirmed{
		Ask:   devicelogin.Ask{Computer: "laptop", Program: "slipway", Address: netip.MustParseAddr("192.0.2.1")},
		Owner: o,
	})
	if err != nil || made.User != o.User || made.Hub != o.Hub || made.Computer != "laptop" || made.Program != "slipway" ||
		made.Address != "192.0.2.1" || made.Expires.Sub(made.Created) != lifetime {
		t.Fatalf("%+v, %v", made, err)
	}
	return made.ID, secret.Reveal()
}

// TestTokens: a token stands for its user over restarts until it is revoked, by that user alone, and is not in the
// store.
func TestTokens(t *testing.T) {
	db, path := newStore(t)
	h := &hub{}
	tokens := opened(t, db, h)
	hers, text := issue(t, tokens, alice())
	his, _ := issue(t, tokens, bob())
	if !Is(text) || Is("a-token-of-the-hub") {
		t.Error("it is not told from a Hub's")
	}
	again := opened(t, db, h)
	if o, err := again.Find(t.Context(), text); err != nil || o != alice() {
		t.Errorf("after a restart: %+v, %v", o, err)
	}
	for _, wrong := range []string{"", text[:len(text)-1], text + "x", hers, prefix, prefix + hers} {
		if _, err := again.Find(t.Context(), wrong); !errs.Is(err, errs.Unauthorized) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	for _, file := range []string{path, path + "-wal"} {
		if b, err := os.ReadFile(file); err == nil && strings.Contains(string(b), strings.TrimPrefix(text, prefix)) {
			t.Errorf("the token is in %s", file)
		}
	}
	if list := again.List(alice()); len(list) != 1 || list[0].ID != hers {
		t.Errorf("%+v", list)
	}
	for _, id := range []string{his, "", "x"} {
		if err := again.Revoke(t.Context(), alice(), id); !errs.Is(err, errs.NotFound) {
			t.Errorf("alice revokes %q: %v", id, err)
		}
	}
	if err := again.Revoke(t.Context(), alice(), hers); err != nil {
		t.Fatal(err)
	}
	for name, each := range map[string]*Tokens{"now": again, "after a restart": opened(t, db, h)} {
		if _, err := each.Find(t.Context(), text); !errs.Is(err, errs.Unauthorized) || len(each.List(bob())) != 1 {
			t.Errorf("revoked, %s: %v", name, err)
		}
	}
}

// TestHubIsAsked: whom the Hub does not know is not let in, and it is not asked for each request.
func TestHubIsAsked(t *testing.T) {
	db, _ := newStore(t)
	h := &hub{}
	tokens := opened(t, db, h)
	_, text := issue(t, tokens, alice())
	for range 3 {
		if _, err := tokens.Find(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	if n := h.asked.Load(); n != 1 {
		t.Errorf("the Hub was asked %d times", n)
	}
	h.down.Store(true)
	if _, err := opened(t, db, h).Find(t.Context(), text); !errs.Is(err, errs.Unavailable) {
		t.Errorf("the Hub is down: %v", err)
	}
	tokens.look(t.Context())
	if len(tokens.List(alice())) != 1 {
		t.Error("what a Hub that is down does not say has removed a token")
	}
	h.down.Store(false)
	h.gone.Store(true)
	if _, err := opened(t, db, h).Find(t.Context(), text); !errs.Is(err, errs.Unauthorized) {
		t.Errorf("the Hub does not know her: %v", err)
	}
	tokens.look(t.Context())
	if len(tokens.List(alice())) != 0 || len(opened(t, db, h).List(alice())) != 0 {
		t.Error("a user whom the Hub does not know has a token still")
	}
}

// TestExpiry: a token ends by itself, and goes from the store then.
func TestExpiry(t *testing.T) {
	db, _ := newStore(t)
	h := &hub{}
	tokens := opened(t, db, h)
	_, text := issue(t, tokens, alice())
	for at, each := range tokens.byHash {
		each.Expires = time.Now()
		tokens.byHash[at] = each
	}
	if _, err := tokens.Find(t.Context(), text); !errs.Is(err, errs.Unauthorized) || len(tokens.List(alice())) != 0 {
		t.Errorf("%v", err)
	}
	tokens.look(t.Context())
	if len(opened(t, db, h).byHash) != 0 {
		t.Error("it is still in the store")
	}
}

func TestLimitAndRun(t *testing.T) {
	db, _ := newStore(t)
	tokens := opened(t, db, &hub{})
	for range userLimit {
		issue(t, tokens, alice())
	}
	if _, _, err := tokens.Issue(t.Context(), devicelogin.Confirmed{Owner: alice()}); !errs.Is(err, errs.OverQuota) {
		t.Errorf("%v", err)
	}
	issue(t, tokens, bob())
	synctest.Test(t, func(t *testing.T) {
		none := &Tokens{byHash: map[hash]token{}}
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan error)
		go func() { over <- none.Run(ctx) }()
		synctest.Wait()
		cancel()
		if err := <-over; !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
}
