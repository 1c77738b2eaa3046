package mount

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"slipway/internal/xrd"
	"slipway/internal/xrd/xrdtest"
)

// scopesOf are those of a user with a directory of her own to write to. xrootdfs asks where the element's directory is,
// for which XRootD 5 wants a scope that lets her read all of it.
func scopesOf(user string) string {
	return "storage.read:/ storage.create:/" + user + " storage.modify:/" + user
}

func TestEachUserHasHerOwnRights(t *testing.T) {
	t.Parallel()
	trust := xrdtest.NewTrust(t)
	origin := trust.TokenOrigin()
	cache := trust.TokenCache(origin)
	origin.Put("alice/a", "hers")
	origin.Put("bob/b", "his")
	b := newBench(t, trust.Dir, xrd.Element{Name: "eos", Origin: origin.URL, Cache: cache.URL, Path: "/data", Mount: true, Write: true})
	for _, user := range []string{"alice", "bob"} {
		b.give(user, trust.Token(user, scopesOf(user), time.Hour))
	}
	alice, bob := b.open(t, "s-1", "alice", 1), b.open(t, "s-2", "bob", 1)
	for _, view := range []string{"eos", "eos.cached"} {
		xrdtest.Eventually(t, "alice reads hers by "+view, reads(filepath.Join(alice, view, "alice/a"), "hers"))
		xrdtest.Eventually(t, "bob reads his by "+view, reads(filepath.Join(bob, view, "bob/b"), "his"))
	}
	if err := os.WriteFile(filepath.Join(alice, "eos/alice/new"), []byte("x"), 0o644); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(alice, "eos/bob/new"), []byte("x"), 0o644); err == nil {
		t.Error("alice writes into bob's")
	}
	carol := b.open(t, "s-3", "carol", 1) // who has nothing, and does not get another's
	if got, err := os.ReadFile(filepath.Join(carol, "eos/alice/a")); err == nil {
		t.Errorf("who has no token reads %q", got)
	}
	token := b.papers["alice"].Token.Reveal()
	for _, pid := range b.processes(b.cfg.RunDir) {
		for _, what := range []string{"cmdline", "environ"} {
			if text, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), what)); strings.Contains(string(text), token) {
				t.Errorf("the token is in the %s of a process", what)
			}
		}
	}
	if info, err := os.Stat(filepath.Join(b.cfg.RunDir, "s-1/token-eos")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestTokensAreRenewedUnderMounts(t *testing.T) {
	t.Parallel()
	trust := xrdtest.NewTrust(t)
	origin := trust.TokenOrigin()
	origin.Put("alice/a", strings.Repeat("content ", 1<<18))
	b := newBench(t, trust.Dir, xrd.Element{Name: "eos", Origin: origin.URL, Path: "/data", Mount: true, Write: true})
	b.give("alice", trust.Token("alice", scopesOf("alice"), -time.Second))
	dir := b.open(t, "s-1", "alice", 1)
	b.keep(t, b.Mounter, Session{"s-1", "alice"})
	file := filepath.Join(dir, "eos/alice/a")
	if got, err := os.ReadFile(file); err == nil {
		t.Errorf("an expired token reads %d bytes", len(got))
	}
	xrdtest.Eventually(t, "it is told", func() error {
		if s := b.Status("s-1"); s[0].Trouble == "" {
			return os.ErrNotExist
		}
		return nil
	})
	t.Log(b.Status("s-1")[0].Trouble)
	b.give("alice", trust.Token("alice", scopesOf("alice"), time.Hour))
	can := func() error { _, err := os.ReadFile(file); return err }
	xrdtest.Eventually(t, "a good token reads", can)
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := io.ReadFull(f, make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	before := b.mounted("s-1")[filepath.Join(dir, "eos")][0]
	b.give("alice", trust.Token("alice", scopesOf("alice")+" storage.create:/bob storage.modify:/bob", time.Hour))
	origin.Put("bob/b", "shared")
	xrdtest.Eventually(t, "the new token is used", func() error { return os.WriteFile(filepath.Join(dir, "eos/bob/new"), []byte("x"), 0o644) })
	xrdtest.Eventually(t, "the mount is exchanged", func() error {
		if after := b.mounted("s-1")[filepath.Join(dir, "eos")]; len(after) != 1 || after[0] == before {
			return fmt.Errorf("mounted before: %s, now: %v", before, after)
		}
		return nil
	})
	if rest, err := io.ReadAll(f); err != nil || len(rest) != 8<<18-100 {
		t.Errorf("an open file gives %d more bytes, %v", len(rest), err)
	}
}
