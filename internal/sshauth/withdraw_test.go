package sshauth

import (
	"crypto/rand"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"slipway/internal/errs"
)

// TestWithdraw: a certificate's own key ends it, and no other key, no other words, and no other's certificate.
func TestWithdraw(t *testing.T) {
	a := authority(t)
	mine, theirs := signer(t), signer(t)
	c, _ := issue(t, a, alice(), mine.PublicKey(), AnySession)
	other, _ := issue(t, a, bob(), theirs.PublicKey(), AnySession)
	signed := func(serial uint64, words string) Withdrawal {
		s, err := mine.Sign(rand.Reader, []byte(words))
		if err != nil {
			t.Fatal(err)
		}
		return Withdrawal{Serial: serial, Key: plain(mine.PublicKey()), Words: []byte("out"), Format: s.Format, Signature: s.Blob}
	}
	foreign := signed(c.Serial, "out")
	foreign.Key = plain(theirs.PublicKey())
	for name, w := range map[string]Withdrawal{
		"another's certificate": signed(other.Serial, "out"), "other words": signed(c.Serial, "in"), "another key": foreign,
	} {
		if _, err := a.Withdraw(t.Context(), w); !errs.Is(err, errs.Forbidden) || len(a.Certificates(alice())) != 1 || len(a.Certificates(bob())) != 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := a.Withdraw(t.Context(), Withdrawal{Serial: c.Serial, Key: "junk"}); !errs.Is(err, errs.Invalid) {
		t.Error(err)
	}
	gone := false
	a.OnRevoke(func(is func(Pass) bool) { gone = is(Pass{Owner: alice(), Serial: c.Serial, Key: c.Fingerprint}) })
	if owner, err := a.Withdraw(t.Context(), signed(c.Serial, "out")); err != nil || owner != alice() || !gone || len(a.Certificates(alice())) != 0 {
		t.Errorf("%+v, %v", owner, err)
	}
	if _, err := a.Withdraw(t.Context(), signed(c.Serial, "out")); err != nil {
		t.Errorf("once more: %v", err)
	}
}

// TestWithdrawAtOnce: who withdraws what somebody else withdraws at that moment has success too, and it is told once
// whose it was.
func TestWithdrawAtOnce(t *testing.T) {
	a := authority(t)
	mine := signer(t)
	c, _ := issue(t, a, alice(), mine.PublicKey(), AnySession)
	signature, err := mine.Sign(rand.Reader, []byte("out"))
	if err != nil {
		t.Fatal(err)
	}
	w := Withdrawal{Serial: c.Serial, Key: plain(mine.PublicKey()), Words: []byte("out"), Format: signature.Format, Signature: signature.Blob}
	var all sync.WaitGroup
	var owners atomic.Int32
	a.change.Lock()
	for range 8 {
		all.Go(func() {
			owner, err := a.Withdraw(t.Context(), w)
			if err != nil {
				t.Error(err)
			}
			if owner == alice() {
				owners.Add(1)
			}
		})
	}
	<-time.After(50 * time.Millisecond) // in which they look; how many have is no matter
	a.change.Unlock()
	all.Wait()
	if n := owners.Load(); n != 1 {
		t.Errorf("%d are told whose it was", n)
	}
}
