package sshauth

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"golang.org/x/crypto/ssh"

	"slipway/internal/devicelogin"
	"slipway/internal/errs"
)

// certificateLimit is the most certificates of one user that are good at a time.
const certificateLimit = 50

// What a certificate says beside its user's name. They are critical, so that nobody else's server takes it.
const (
	hubOption     = "hub@slipway"
	sessionOption = "session@slipway"
)

// Certificate is a certificate that was issued. It is good as long as its record is there: revoking it removes the
// record.
type Certificate struct {
	Owner       Owner     `json:"owner"`
	Serial      uint64    `json:"serial"`
	Fingerprint string    `json:"fingerprint"` // of the key that it is for
	Session     string    `json:"session"`     // the name of the only server that it opens; AnySession: all
	Computer    string    `json:"computer,omitempty"`
	Issued      time.Time `json:"issued"`
	Expires     time.Time `json:"expires"`
	// Text is the certificate as a file -cert.pub has it. It is not kept.
	Text string `json:"-"`
}

func (c Certificate) at() string { return fmt.Sprintf("%020d", c.Serial) }

// recallCertificates reads those that have not expired, and removes the others.
func (a *Authority) recallCertificates(ctx context.Context) error {
	for r, err := range a.cfg.Store.All(ctx, certificatesBucket) {
		if err != nil {
			return err
		}
		var c Certificate
		if err := json.Unmarshal(r.Value, &c); err != nil {
			return fmt.Errorf("read the ssh certificate %s: %w", r.Key, err)
		}
		if time.Now().Before(c.Expires) {
			a.certificates[c.Serial] = c
			continue
		}
		if err := a.cfg.Store.Delete(ctx, certificatesBucket, r.Key); err != nil {
			return err
		}
	}
	return nil
}

// Request is what a certificate is asked for.
type Request struct {
	Key      string // the public key, as ssh-keygen writes it
	Session  string // the name of the only server that it opens; AnySession: all
	Computer string // where it was asked for; may be empty
}

// Issue returns an owner a certificate of a public key.
func (a *Authority) Issue(ctx context.Context, owner Owner, r Request) (Certificate, error) {
	key, _, err := ParseKey(r.Key)
	if err != nil {
		return Certificate{}, err
	}
	if r.Session != devicelogin.Label(r.Session) {
		return Certificate{}, errs.Bad(
			"session", r.Session, "the name of one of your servers, or "+AnySession+" for all",
		)
	}
	a.change.Lock()
	defer a.change.Unlock()
	a.forgetExpired(ctx)
	if len(a.Certificates(owner)) >= certificateLimit {
		return Certificate{}, errs.New(
			errs.OverQuota, "you have %d certificates that are good, and more are not given", certificateLimit,
		).With("revoke some, or wait until some have expired")
	}
	now := time.Now().UTC().Truncate(time.Second)
	c := Certificate{
		Owner: owner, Serial: a.newSerial(), Fingerprint: ssh.FingerprintSHA256(key), Session: r.Session,
		Computer: devicelogin.Label(r.Computer),
		Issued:   now, Expires: now.Add(a.cfg.Certificate),
	}
	if c.Text, err = a.sign(c, key); err != nil {
		return Certificate{}, err
	}
	if err := a.save(ctx, certificatesBucket, c.at(), c); err != nil {
		return Certificate{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.certificates[c.Serial] = c
	return c, nil
}

// sign writes the certificate.
func (a *Authority) sign(c Certificate, key ssh.PublicKey) (string, error) {
	cert := &ssh.Certificate{
		Key: key, Serial: c.Serial, CertType: ssh.UserCert,
		KeyId:           fmt.Sprintf("slipway %s/%s %d", c.Owner.Hub, c.Owner.User, c.Serial),
		ValidPrincipals: []string{c.Owner.User},
		ValidAfter:      uint64(c.Issued.Add(-skew).Unix()), ValidBefore: uint64(c.Expires.Unix()),
		Permissions: ssh.Permissions{
			CriticalOptions: map[string]string{hubOption: c.Owner.Hub, sessionOption: c.Session},
		},
	}
	if err := cert.SignCert(rand.Reader, a.files.user); err != nil {
		return "", fmt.Errorf("sign an ssh certificate: %w", err)
	}
	return plain(cert), nil
}

// newSerial returns a number that no certificate has. It fits into the numbers of JSON.
func (a *Authority) newSerial() uint64 {
	a.mu.RLock()
	defer a.mu.RUnlock()
	for {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		n := binary.BigEndian.Uint64(b[:]) >> 11
		if _, taken := a.certificates[n]; n != 0 && !taken {
			return n
		}
	}
}

// forgetExpired removes what is over. What cannot be removed now is at the next start.
func (a *Authority) forgetExpired(ctx context.Context) {
	now := time.Now()
	a.mu.Lock()
	var over []Certificate
	for serial, c := range a.certificates {
		if !now.Before(c.Expires) {
			over = append(over, c)
			delete(a.certificates, serial)
		}
	}
	a.mu.Unlock()
	for _, c := range over {
		if err := a.cfg.Store.Delete(ctx, certificatesBucket, c.at()); err != nil {
			a.cfg.Logger.Warn("an expired ssh certificate stays in the store", "serial", c.Serial, "error", err)
		}
	}
}

// Certificates returns an owner's that are good, the newest first.
func (a *Authority) Certificates(owner Owner) []Certificate {
	now := time.Now()
	a.mu.RLock()
	defer a.mu.RUnlock()
	list := slices.DeleteFunc(slices.Collect(maps.Values(a.certificates)), func(c Certificate) bool {
		return c.Owner != owner || !now.Before(c.Expires)
	})
	slices.SortFunc(
		list, func(x, y Certificate) int { return cmp.Or(y.Issued.Compare(x.Issued), cmp.Compare(x.Serial, y.Serial)) },
	)
	return list
}

// Revoke ends a certificate; whoever is in by it is told of.
func (a *Authority) Revoke(ctx context.Context, owner Owner, serial uint64) error {
	a.change.Lock()
	defer a.change.Unlock()
	a.mu.RLock()
	c, ok := a.certificates[serial]
	a.mu.RUnlock()
	if !ok || c.Owner != owner {
		return errs.New(errs.NotFound, "you have no certificate %s", strconv.FormatUint(serial, 10)).
			With("the list of your certificates has their serials")
	}
	if err := a.drop(ctx, certificatesBucket, c.at()); err != nil {
		return err
	}
	a.mu.Lock()
	delete(a.certificates, serial)
	a.mu.Unlock()
	a.tell(func(p Pass) bool { return p.Serial == serial })
	return nil
}

// checkCertificate looks at what costs nothing first: a certificate that is not one of the records is not verified at
// all.
func (a *Authority) checkCertificate(login string, cert *ssh.Certificate) (Pass, error) {
	if cert.CertType != ssh.UserCert || cert.SignatureKey == nil || !bytes.Equal(cert.SignatureKey.Marshal(), a.files.user.PublicKey().Marshal()) {
		return Pass{}, refused("the certificate is none of this service's for users")
	}
	a.mu.RLock()
	c, known := a.certificates[cert.Serial]
	a.mu.RUnlock()
	_, fits := Target(login, c.Owner.User)
	switch {
	case !known:
		return Pass{}, refused("the certificate is revoked or expired")
	case !fits:
		return Pass{}, refused("the certificate is not this user's")
	case cert.Key == nil || ssh.FingerprintSHA256(cert.Key) != c.Fingerprint || !slices.Equal(
		cert.ValidPrincipals, []string{c.Owner.User},
	):
		return Pass{}, refused("the certificate is not what was issued under its serial")
	case !maps.Equal(cert.CriticalOptions, map[string]string{hubOption: c.Owner.Hub, sessionOption: c.Session}):
		return Pass{}, refused("the certificate's critical options are not those that it was issued with")
	case cert.ValidBefore != uint64(c.Expires.Unix()):
		return Pass{}, refused("the certificate's end is not the one that it was issued with")
	}
	checker := ssh.CertChecker{SupportedCriticalOptions: []string{hubOption, sessionOption}}
	if err := checker.CheckCert(c.Owner.User, cert); err != nil {
		return Pass{}, errs.New(errs.Forbidden, "the certificate does not hold: %w", err)
	}
	return Pass{Owner: c.Owner, Key: c.Fingerprint, Serial: c.Serial, Session: c.Session, Expires: c.Expires}, nil
}
