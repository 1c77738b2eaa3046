package sshauth

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"
)

// answers stands for the hubs: of whom they say that she is gone, and of whom they say nothing.
type answers struct{ gone, silent map[Owner]bool }

func (h answers) ask(_ context.Context, o Owner) (bool, error) {
	if h.silent[o] {
		return true, errors.New("the Hub does not answer")
	}
	return h.gone[o], nil
}

// looks has the hubs asked over a time, as Follow does.
func looks(t *testing.T, a *Authority, h answers, over time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), over)
	defer cancel()
	if err := a.Follow(ctx, h.ask); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// keyed returns an owner of the hub main a key.
func keyed(t *testing.T, a *Authority, user string) (Owner, ssh.PublicKey) {
	t.Helper()
	o, key := Owner{Hub: "main", User: user}, signer(t).PublicKey()
	if _, err := a.AddKey(t.Context(), o, plain(key), ""); err != nil {
		t.Fatal(err)
	}
	return o, key
}

// TestWhoIsGoneIsForgotten: whom her hub has not known for a day loses keys and certificates, and her connections end
// at once; others' stay, also over restarts of the service.
func TestWhoIsGoneIsForgotten(t *testing.T) {
	cfg := configOf(t, newMemory())
	a := opened(t, cfg)
	_, mine := keyed(t, a, alice().User)
	_, theirs := keyed(t, a, bob().User)
	c, _ := issue(t, a, alice(), signer(t).PublicKey(), AnySession)
	synctest.Test(t, func(t *testing.T) {
		var ended []string
		a.OnRevoke(func(gone func(Pass) bool) {
			for name, p := range map[string]Pass{
				"key": {Owner: alice(), Key: ssh.FingerprintSHA256(mine)}, "certificate": {Owner: alice(), Serial: c.Serial}, "browser": {Owner: alice()}, "bob": {Owner: bob()},
			} {
				if gone(p) && !slices.Contains(ended, name) {
					ended = append(ended, name)
				}
			}
		})
		h := answers{gone: map[Owner]bool{alice(): true}}
		looks(t, a, h, time.Minute)
		if slices.Sort(ended); !slices.Equal(ended, []string{"browser", "certificate", "key"}) {
			t.Errorf("ended: %q", ended)
		}
		a = opened(t, cfg) // which does not begin the day anew
		if looks(t, a, h, 23*time.Hour); len(a.Keys(alice())) != 1 {
			t.Error("her key is gone before the day is over")
		}
		looks(t, a, h, 2*time.Hour)
		for name, a := range map[string]*Authority{"at once": a, "after a restart": opened(t, cfg)} {
			if len(a.Keys(alice())) > 0 || len(a.Certificates(alice())) > 0 || len(a.missing) > 0 {
				t.Errorf("%s: she gets in: %v", name, a.missing)
			}
			if _, err := a.Check("bob", theirs); err != nil {
				t.Errorf("%s: bob does not: %v", name, err)
			}
		}
	})
}

// TestUnknownIsNotGone: a hub that does not answer takes nobody's key away, whatever it has said before.
func TestUnknownIsNotGone(t *testing.T) {
	a := authority(t)
	o, key := keyed(t, a, "alice")
	synctest.Test(t, func(t *testing.T) {
		looks(t, a, answers{silent: map[Owner]bool{o: true}}, 48*time.Hour)
		looks(t, a, answers{gone: map[Owner]bool{o: true}}, 23*time.Hour)
		looks(t, a, answers{silent: map[Owner]bool{o: true}}, 48*time.Hour)
		if _, err := a.Check("alice", key); err != nil {
			t.Error(err)
		}
	})
}

// TestWhoIsBackBeginsAnew: absences do not add up.
func TestWhoIsBackBeginsAnew(t *testing.T) {
	cfg := configOf(t, newMemory())
	a := opened(t, cfg)
	o, key := keyed(t, a, "alice")
	synctest.Test(t, func(t *testing.T) {
		for range 3 {
			looks(t, a, answers{gone: map[Owner]bool{o: true}}, 23*time.Hour)
			looks(t, a, answers{}, time.Minute)
			a = opened(t, cfg)
		}
		if _, err := a.Check("alice", key); err != nil {
			t.Error(err)
		}
	})
}

// TestAHubWithoutItsDatabase is not believed, however long it is so, nor for the time when it has got some of its users
// back; a few who are gone are.
func TestAHubWithoutItsDatabase(t *testing.T) {
	for name, tc := range map[string]struct{ known, gone, stay int }{
		"most of many":  {4, 5, 9},
		"half of many":  {5, 5, 5},
		"all of a few":  {0, 3, 0},
		"all of enough": {0, 4, 4},
	} {
		a, h, all := authority(t), answers{gone: map[Owner]bool{}}, []Owner(nil)
		for i := range tc.known + tc.gone {
			o, _ := keyed(t, a, fmt.Sprintf("user%d", i))
			h.gone[o], all = i < tc.gone, append(all, o)
		}
		synctest.Test(t, func(t *testing.T) {
			looks(t, a, h, 72*time.Hour)
			if got := len(a.owners()); got != tc.stay {
				t.Errorf("%s: %d have keys, want %d", name, got, tc.stay)
			}
			for _, o := range all[:len(all)*2/3] {
				delete(h.gone, o)
			}
			looks(t, a, h, 23*time.Hour)
			if got := len(a.owners()); got != tc.stay {
				t.Errorf("%s: when it is back, %d have keys, want %d", name, got, tc.stay)
			}
		})
	}
}

// TestNoHubSpeaksForAnother: one that has lost its users does not keep another's from being believed.
func TestNoHubSpeaksForAnother(t *testing.T) {
	a, h := authority(t), answers{gone: map[Owner]bool{}}
	for i := range 5 {
		o, _ := keyed(t, a, fmt.Sprintf("user%d", i))
		h.gone[o] = true
	}
	there := Owner{Hub: "other", User: "carol"}
	if _, err := a.AddKey(t.Context(), there, plain(signer(t).PublicKey()), ""); err != nil {
		t.Fatal(err)
	}
	h.gone[there] = true
	synctest.Test(t, func(t *testing.T) {
		looks(t, a, h, 25*time.Hour)
		if got := a.owners(); len(got) != 5 || len(a.Keys(there)) > 0 {
			t.Errorf("%v have keys", got)
		}
	})
}

// TestABrokenDiskForgetsNobodyEarly: an absence counts from when it was noted for good.
func TestABrokenDiskForgetsNobodyEarly(t *testing.T) {
	store := newMemory()
	a := opened(t, configOf(t, store))
	o, key := keyed(t, a, "alice")
	h := answers{gone: map[Owner]bool{o: true}}
	synctest.Test(t, func(t *testing.T) {
		store.broken = true
		looks(t, a, h, 25*time.Hour)
		store.broken = false
		looks(t, a, h, 23*time.Hour)
		if _, err := a.Check("alice", key); err != nil {
			t.Error(err)
		}
		if looks(t, a, h, 2*time.Hour); len(a.Keys(o)) > 0 {
			t.Error("she is not forgotten")
		}
	})
}
