package identity

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"slipway/internal/errs"
	"slipway/internal/store"
	"slipway/internal/testenv"
)

func newAccounts(t *testing.T, last int) *Accounts {
	t.Helper()
	testenv.Need(t, testenv.Root)
	dir := filepath.Join(t.TempDir(), "data")
	s, err := store.Open(t.Context(), filepath.Join(dir, "slipway.db"), slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	a, err := New(Config{Store: s, First: 20000, Last: last, GID: 100, Homes: filepath.Join(dir, "homes")})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestEveryUserHasAnAccountOfHerOwn(t *testing.T) {
	a := newAccounts(t, 20999)
	users := []string{"alice", "Alice", "ALICE", "has@", "user--foo", "a.b", "..", "физик", "root", "u20000", strings.Repeat("x", 200), strings.Repeat("x", 199) + "X", "=41lice"}
	ids, homes, logins := map[int]string{}, map[string]string{}, map[string]string{}
	for _, user := range users {
		acc, err := a.Account(t.Context(), Site, user)
		if err != nil {
			t.Fatalf("%q: %v", user, err)
		}
		fold := strings.ToLower(acc.HomeDir)
		if ids[acc.UID] != "" || homes[fold] != "" || logins[acc.Login] != "" {
			t.Errorf("%q shares %+v with %q%q%q", user, acc, ids[acc.UID], homes[fold], logins[acc.Login])
		}
		ids[acc.UID], homes[fold], logins[acc.Login] = user, user, user
		if filepath.Dir(acc.HomeDir) != a.cfg.Homes {
			t.Errorf("%q has its home at %s", user, acc.HomeDir)
		}
		again, err := a.Account(t.Context(), Site, user)
		if err != nil || !reflect.DeepEqual(again, acc) {
			t.Errorf("%q the second time: %+v, %v; want %+v", user, again, err, acc)
		}
	}
}

func TestTheAccount(t *testing.T) {
	a := newAccounts(t, 20999)
	acc, err := a.Account(t.Context(), Site, "alice")
	if err != nil || acc.Login != "alice" || acc.Home != "/home/alice" || acc.UID != 20000 || acc.GID != 100 {
		t.Errorf("account %+v, %v", acc, err)
	}
	if _, err := os.Lstat(acc.HomeDir); err == nil {
		t.Error("it has made a home, which may be where nothing answers")
	}
}

func TestNoIDIsGivenTwice(t *testing.T) {
	a := newAccounts(t, 20031)
	var wg sync.WaitGroup
	ids := make(chan int, 64)
	for i := range 32 {
		for range 2 { // each user asks twice at once
			wg.Go(func() {
				acc, err := a.Account(t.Context(), Site, fmt.Sprintf("user%d", i))
				if err != nil {
					t.Error(err)
				}
				ids <- acc.UID
			})
		}
	}
	wg.Wait()
	close(ids)
	counts := map[int]int{}
	for id := range ids {
		counts[id]++
	}
	for id, n := range counts {
		if n != 2 {
			t.Errorf("id %d was given %d times, want to one user, twice", id, n)
		}
	}
	if _, err := a.Account(t.Context(), Site, "onemore"); !errs.Is(err, errs.OverQuota) {
		t.Errorf("beyond the range: %v", err)
	}
}

// TestNumbersOfTheHost: no user gets a number that an account of the host has, and none while the host cannot say so.
func TestNumbersOfTheHost(t *testing.T) {
	a := newAccounts(t, 20070)
	var away error = errs.New(errs.Unavailable, "the directory does not answer")
	hosts, asked := map[int]string{20000: "backup9", 20002: "ldap-user"}, 0
	a.cfg.Holders = func(context.Context, []int) (map[int]string, error) {
		asked++
		return hosts, away
	}
	if _, err := a.Account(t.Context(), Site, "alice"); !errs.Is(err, errs.Unavailable) {
		t.Errorf("the host cannot be asked: %v", err)
	}
	away = nil
	if acc, err := a.Account(t.Context(), Site, "alice"); err != nil || acc.UID != 20001 {
		t.Errorf("alice has %d, %v", acc.UID, err)
	}
	if acc, err := a.Account(t.Context(), Site, "bob"); err != nil || acc.UID != 20003 {
		t.Errorf("bob has %d, %v", acc.UID, err)
	}
	hosts[20001], asked = "alice-of-the-host", 0
	if acc, err := a.Account(t.Context(), Site, "alice"); err != nil || acc.UID != 20001 || asked != 0 {
		t.Errorf("what a user has stays: %d, %v, the host asked %d times", acc.UID, err, asked)
	}
	for id := 20004; id < 20070; id++ { // more than are asked for at once
		hosts[id] = "host"
	}
	if acc, err := a.Account(t.Context(), Site, "carol"); err != nil || acc.UID != 20070 {
		t.Errorf("carol has %d, %v", acc.UID, err)
	}
	if _, err := a.Account(t.Context(), Site, "dave"); !errs.Is(err, errs.OverQuota) ||
		!strings.Contains(err.Error(), "are given out") {
		t.Errorf("beyond the range: %v", err)
	}
}

// TestARangeMovedDown: ids only go up, and the error says so.
func TestARangeMovedDown(t *testing.T) {
	a := newAccounts(t, 20999)
	if _, err := a.Account(t.Context(), Site, "alice"); err != nil {
		t.Fatal(err)
	}
	a.cfg.First, a.cfg.Last = 1000, 1200
	_, err := a.Account(t.Context(), Site, "bob")
	if !errs.Is(err, errs.OverQuota) || !strings.Contains(err.Error(), "the next user id, 20001, is above users.uids 1000-1200") {
		t.Errorf("bob: %v", err)
	}
}

func TestBadNames(t *testing.T) {
	a := newAccounts(t, 20999)
	for _, user := range []string{"", "a\nb", "a\x00b", "\xff", strings.Repeat("x", 256)} {
		if _, err := a.Account(t.Context(), Site, user); !errs.Is(err, errs.Invalid) {
			t.Errorf("%q: %v", user, err)
		}
	}
}

// FuzzDirName looks for two users who would share a directory, and for names that are more than one path element.
func FuzzDirName(f *testing.F) {
	for _, pair := range [][2]string{
		{"alice", "Alice"}, {"a=41", "aA"}, {"..", "."}, {"a/b", "a-b"}, {"ä", "Ä"},
		{strings.Repeat("x", 255), strings.Repeat("x", 254) + "X"}, {strings.Repeat("ä", 60), strings.Repeat("ä", 59) + "a"},
	} {
		f.Add(pair[0], pair[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y := DirName(a), DirName(b)
		if a != b && strings.EqualFold(x, y) {
			t.Errorf("%q and %q share %q", a, b, x)
		}
		if a != "" && (x != filepath.Base(x) || strings.HasPrefix(x, ".") || len(x) > 200) {
			t.Errorf("%q gives %q", a, x)
		}
	})
}

func TestRealms(t *testing.T) {
	a := newAccounts(t, 20999)
	seen := map[string]string{}
	for _, who := range [][2]string{{Site, "alice"}, {"desy", "alice"}, {"cern", "alice"}, {Site, "@desy/alice"}, {Site, "@site/alice"}, {Site, "desy/alice"}} {
		account, err := a.Account(t.Context(), who[0], who[1])
		if err != nil {
			t.Fatal(who, err)
		}
		for _, key := range []string{fmt.Sprint(account.UID), account.HomeDir, Principal(who[0], who[1])} {
			if other, taken := seen[key]; taken {
				t.Errorf("%v and %s share %s", who, other, key)
			}
			seen[key] = fmt.Sprint(who)
		}
	}
	for _, realm := range []string{"", "../x", "A", "a/b"} {
		if _, err := a.Account(t.Context(), realm, "alice"); !errs.Is(err, errs.Invalid) {
			t.Errorf("realm %q: %v", realm, err)
		}
	}
}

func TestUserOfUndoesPrincipal(t *testing.T) {
	for _, realm := range []string{Site, "lab"} {
		for _, user := range []string{"alice", "@alice", "a/b", "@lab/alice", "@", "/"} {
			if got := UserOf(Principal(realm, user)); got != user {
				t.Errorf("UserOf(Principal(%q, %q)) = %q", realm, user, got)
			}
			if got := RealmOf(Principal(realm, user)); got != realm {
				t.Errorf("RealmOf(Principal(%q, %q)) = %q", realm, user, got)
			}
		}
	}
}
