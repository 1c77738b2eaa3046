package sshauth

import (
	"context"

	"golang.org/x/crypto/ssh"

	"slipway/internal/errs"
)

// Withdrawal asks for the end of a certificate in the name of its own key: whoever holds it could come in, and may as
// well leave.
type Withdrawal struct {
	Serial    uint64
	Key       string // the public key that the certificate is for, as ssh-keygen writes it
	Words     []byte // that are signed
	Format    string // of the signature, such as ssh-ed25519 (RFC 4253, section 6.6)
	Signature []byte
}

// Withdraw ends a certificate, and tells whose it was; nobody's where it is over or was withdrawn before, which is
// success.
func (a *Authority) Withdraw(ctx context.Context, w Withdrawal) (Owner, error) {
	key, _, err := ParseKey(w.Key)
	if err != nil {
		return Owner{}, err
	}
	a.mu.RLock()
	c, ok := a.certificates[w.Serial]
	a.mu.RUnlock()
	signature := ssh.Signature{Format: w.Format, Blob: w.Signature}
	switch {
	case !ok:
		return Owner{}, nil
	case ssh.FingerprintSHA256(key) != c.Fingerprint || key.Verify(w.Words, &signature) != nil:
		return Owner{}, errs.New(errs.Forbidden, "the certificate is for another key").
			With("log it out on the page SSH of your Hub's Slipway")
	}
	switch err := a.Revoke(ctx, c.Owner, c.Serial); {
	case errs.Is(err, errs.NotFound): // somebody else was faster
		return Owner{}, nil
	case err != nil:
		return Owner{}, err
	}
	return c.Owner, nil
}
