package service

import (
	"log/slog"
	"path/filepath"
	"reflect"
	"testing"

	"slipway/internal/config"
	"slipway/internal/errs"
	"slipway/internal/identity"
	"slipway/internal/store"
	"slipway/internal/testenv"
)

// TestUsersOfAHubThatIsGone: what waits for a hub that was taken out of the configuration, or is called otherwise now,
// must not become the start of a namesake of another hub, in her home.
func TestUsersOfAHubThatIsGone(t *testing.T) {
	testenv.Need(t, testenv.Root)
	dir := t.TempDir()
	records, err := store.Open(t.Context(), filepath.Join(dir, "records", "slipway.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = records.Close() })
	accounts, err := identity.New(
		identity.Config{Store: records, First: 20000, Last: 20999, GID: 100, Homes: filepath.Join(dir, "homes")},
	)
	if err != nil {
		t.Fatal(err)
	}
	with := func(hubs ...config.Hub) *service {
		known, err := recallRealms(t.Context(), records, hubs)
		if err != nil {
			t.Fatal(err)
		}
		return &service{accounts: accounts, realms: known}
	}
	first, second := config.Hub{Name: "main"}, config.Hub{Name: "second", Realm: "elsewhere"}
	before, err := with(first, second).account(t.Context(), "second", "alice")
	if err != nil {
		t.Fatal(err)
	}
	s := with(first, config.Hub{Name: "third", Realm: "elsewhere"})
	alice, err := s.account(t.Context(), "main", "alice")
	if err != nil || alice.UID == before.UID || alice.HomeDir == before.HomeDir {
		t.Errorf("alice of the first hub is %+v, %v, and of the second %+v", alice, err, before)
	}
	if after, err := s.account(t.Context(), "second", "alice"); err != nil || !reflect.DeepEqual(after, before) {
		t.Errorf("alice of a hub that is gone was %+v and is %+v, %v", before, after, err)
	}
	if a, err := s.account(t.Context(), "never", "alice"); !errs.Is(err, errs.Missing) {
		t.Errorf("alice of a hub that was never there: %+v, %v", a, err)
	}
	words := map[string]string{}
	for _, hub := range []string{"main", "second", "never"} {
		word := s.principal(hub, "alice")
		if words[word] != "" {
			t.Errorf("alice of %s is alice of %s", hub, words[word])
		}
		words[word] = hub
	}
	if s.principal("second", "alice") != s.principal("third", "alice") {
		t.Error("hubs of one realm have other people")
	}
}
