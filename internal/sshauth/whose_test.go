package sshauth

import (
	"bytes"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"slipway/internal/errs"
)

// TestWhoseKey holds that a login name and the proved key decide together, and a name alone nothing.
func TestWhoseKey(t *testing.T) {
	a := authority(t)
	hers, his, twice, gone := signer(t).PublicKey(), signer(t).PublicKey(), signer(t).PublicKey(), signer(t).PublicKey()
	add(t, a, alice(), plain(hers))
	add(t, a, bob(), plain(his))
	add(t, a, Owner{Hub: "second", User: "carol"}, plain(twice))
	a.put(Key{Owner: Owner{Hub: "main", User: "carol"}, Fingerprint: ssh.FingerprintSHA256(twice)}) // when the two hubs had realms of their own
	add(t, a, Owner{Hub: "other", User: "dave"}, plain(twice))
	add(t, a, Owner{Hub: "taken out", User: "alice"}, plain(gone))
	for _, tc := range []struct {
		login string
		key   ssh.PublicKey
		want  Owner
	}{
		{"alice", hers, alice()},
		{"alice+gpu10", hers, alice()},
		{"alice+", hers, alice()},
		{"alice++x", hers, alice()},
		{"carol", twice, Owner{Hub: "main", User: "carol"}},
		{"dave+gpu", twice, Owner{Hub: "other", User: "dave"}},
		{"bob", hers, Owner{}},
		{"alice", his, Owner{}},
		{"bob+alice", hers, Owner{}},
		{"alicex", hers, Owner{}},
		{"Alice", hers, Owner{}},
		{"", hers, Owner{}},
		{"+alice", hers, Owner{}},
		{"alice", gone, Owner{}},
		{"nobody", signer(t).PublicKey(), Owner{}},
	} {
		p, err := a.Check(tc.login, tc.key)
		switch {
		case tc.want == (Owner{}):
			if !errs.Is(err, errs.Forbidden) || p != (Pass{}) {
				t.Errorf("%s: %+v, %v", tc.login, p, err)
			}
		case err != nil || p.Owner != tc.want || p.Session != AnySession || !a.Holds(p):
			t.Errorf("%s: %+v, %v", tc.login, p, err)
		}
	}
	_, unknown := a.Check("bob", signer(t).PublicKey())
	_, foreign := a.Check("bob", hers)
	if unknown.Error() != foreign.Error() {
		t.Errorf("%v tells more than %v", foreign, unknown)
	}
}

// TestStrangersWithOneKey: whoever adds somebody's public key draws none of her connections to himself, by the name of
// another realm or by one with a plus, whether he comes first or last.
func TestStrangersWithOneKey(t *testing.T) {
	for _, thief := range []Owner{{Hub: "other", User: "alice"}, {Hub: "main", User: "alice+gpu"}} {
		login := thief.User
		var logged bytes.Buffer
		cfg := configOf(t, newMemory())
		cfg.Logger = slog.New(slog.NewTextHandler(&logged, nil))
		a := opened(t, cfg)
		add(t, a, thief, anEd)
		add(t, a, alice(), anEd)
		key, _, _ := ParseKey(anEd)
		if p, err := a.Check(login, key); !errs.Is(err, errs.Forbidden) || p != (Pass{}) {
			t.Errorf("%+v: none has come in: %+v, %v", thief, p, err)
		}
		for _, words := range []string{ssh.FingerprintSHA256(key), "hub main", thief.Hub, "slipway ssh login"} {
			if !strings.Contains(logged.String(), words) {
				t.Errorf("%+v: the log does not say %q: %s", thief, words, &logged)
			}
		}
		a.Used(Pass{Owner: alice(), Key: ssh.FingerprintSHA256(key)}, netip.MustParseAddr("192.0.2.1"))
		if p, err := a.Check(login, key); err != nil || p.Owner != alice() {
			t.Errorf("%+v: she has come in: %+v, %v", thief, p, err)
		}
		if err := a.RemoveKey(t.Context(), thief, ssh.FingerprintSHA256(key)); err != nil {
			t.Error(err)
		}
		if _, err := a.AddKey(t.Context(), thief, anEd, ""); !errs.Is(err, errs.Conflict) || strings.Contains(err.Error(), "alice") || len(a.Keys(thief)) != 0 {
			t.Errorf("%+v: added once she has come in: %v", thief, err)
		}
		add(t, a, bob(), anEd) // whose name is no beginning of hers
		if p, err := opened(t, cfg).Check(login, key); err != nil || p.Owner != alice() {
			t.Errorf("%+v: after a restart: %+v, %v", thief, p, err)
		}
	}
}

// TestUsedAtOneHub: a person who has come in by a key at one of her hubs is known at the others.
func TestUsedAtOneHub(t *testing.T) {
	a := authority(t)
	second := Owner{Hub: "second", User: "alice"}
	k := add(t, a, second, anEd)
	a.Used(Pass{Owner: second, Key: k.Fingerprint}, netip.MustParseAddr("192.0.2.1"))
	a.put(Key{Owner: alice(), Fingerprint: k.Fingerprint}) // when the two hubs had realms of their own
	key, _, _ := ParseKey(anEd)
	if p, err := a.Check("alice", key); err != nil || p.Owner != alice() {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestAKeyLeadsToOneHub: a person who adds her key at a second hub of hers is told, and strangers of her name are not
// told of her.
func TestAKeyLeadsToOneHub(t *testing.T) {
	a := authority(t)
	add(t, a, alice(), anEd)
	_, err := a.AddKey(t.Context(), Owner{Hub: "second", User: "alice"}, anEd, "")
	if !errs.Is(err, errs.Conflict) || !strings.Contains(err.Error(), "at the Hub main") || !strings.Contains(err.Error(), "--hub second --name second") {
		t.Error(err)
	}
	add(t, a, Owner{Hub: "other", User: "alice"}, anEd)
	if err := a.RemoveKey(t.Context(), alice(), a.Keys(alice())[0].Fingerprint); err != nil {
		t.Fatal(err)
	}
	add(t, a, Owner{Hub: "second", User: "alice"}, anEd)
}

func TestTarget(t *testing.T) {
	for _, tc := range []struct {
		login, user, target string
		ok                  bool
	}{
		{"alice", "alice", "", true}, {"alice+gpu", "alice", "gpu", true}, {"alice+", "alice", "", true}, {"alice+a+b", "alice+a", "b", true},
		{"alice+a+b", "alice", "a+b", true}, {"alicex", "alice", "", false}, {"ali", "alice", "", false}, {"", "", "", false}, {"+x", "", "", false},
	} {
		if target, ok := Target(tc.login, tc.user); ok != tc.ok || ok && target != tc.target {
			t.Errorf("%+v: %q, %v", tc, target, ok)
		}
	}
}

// TestEnd: all of an owner's connections end, and nobody else's.
func TestEnd(t *testing.T) {
	a := authority(t)
	gone := map[Pass]bool{}
	passes := []Pass{{Owner: alice()}, {Owner: alice(), Key: "k"}, {Owner: alice(), Serial: 1}, {Owner: bob()}, {Owner: Owner{Hub: "other", User: "alice"}}}
	a.OnRevoke(func(is func(Pass) bool) {
		for _, p := range passes {
			gone[p] = is(p)
		}
	})
	a.End(alice())
	for _, p := range passes {
		if gone[p] != (p.Owner == alice()) {
			t.Errorf("%+v: %v", p, gone[p])
		}
	}
}
