package sshauth

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"
)

// TestWhoIsGoneIsForgotten: her keys, certificates and connections end, others' stay, also over a restart of the service.
func TestWhoIsGoneIsForgotten(t *testing.T) {
	store := newMemory()
	cfg := configOf(t, store)
	a := opened(t, cfg)
	mine, theirs := signer(t).PublicKey(), signer(t).PublicKey()
	c, _ := issue(t, a, alice(), signer(t).PublicKey(), AnySession)
	for owner, key := range map[Owner]ssh.PublicKey{alice(): mine, bob(): theirs} {
		if _, err := a.AddKey(t.Context(), owner, plain(key), ""); err != nil {
			t.Fatal(err)
		}
	}
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
	if err := a.Forget(t.Context(), alice()); err != nil {
		t.Fatal(err)
	}
	slices.Sort(ended)
	if !slices.Equal(ended, []string{"browser", "certificate", "key"}) {
		t.Errorf("ended: %q", ended)
	}
	for name, a := range map[string]*Authority{"at once": a, "after a restart": opened(t, cfg)} {
		if _, err := a.Check("alice", mine); err == nil || len(a.Certificates(alice())) > 0 {
			t.Errorf("%s: she gets in", name)
		}
		if _, err := a.Check("bob", theirs); err != nil {
			t.Errorf("%s: bob does not: %v", name, err)
		}
	}
}

// TestUnknownIsNotGone: a hub that does not answer takes nobody's key away, and is asked again.
func TestUnknownIsNotGone(t *testing.T) {
	a := authority(t)
	key := signer(t).PublicKey()
	if _, err := a.AddKey(t.Context(), alice(), plain(key), ""); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var asked atomic.Int32
		done := make(chan error, 1)
		go func() {
			done <- a.Follow(ctx, func(_ context.Context, o Owner) (bool, error) {
				switch asked.Add(1) {
				case 1:
					return true, errors.New("the Hub does not answer")
				case 2:
					return false, nil
				}
				return o == alice(), nil
			})
		}()
		for n := int32(1); n <= 3; n++ {
			synctest.Wait()
			if _, err := a.Check("alice", key); asked.Load() != n || (err != nil) != (n == 3) {
				t.Errorf("asked %d times: %v", asked.Load(), err)
			}
			<-time.After(lookEvery)
		}
		cancel()
		<-done
	})
}
