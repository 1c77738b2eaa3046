package x509proxy

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"slipway/internal/errs"
)

const (
	mostAuthority = 1 << 20  // bytes of a file of an authority, or of its policy
	mostList      = 64 << 20 // and of a revocation list
	mostFiles     = 20_000   // of the directory
)

// directory is one of authorities. It is read again once something in it has changed.
type directory struct {
	path string

	mu    sync.Mutex
	state string // of the files that were read last
	last  *authorities
}

// authorities are what a directory has.
type authorities struct {
	roots, between *x509.CertPool
	lists          map[string][]*x509.RevocationList // by the issuer's name in DER
	policies       map[string][]policy               // by the authority's name on one line, with today's labels
	faults         []string                          // files that are of no use, with the reason
}

// read returns what the directory has now.
func (d *directory) read() (*authorities, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	names, state, err := d.look()
	if err != nil {
		return nil, errs.New(errs.Unavailable, "the directory of trusted authorities cannot be read: %w", err).
			With("the service's administrator looks at credentials.x509.trust in its configuration")
	}
	if d.last != nil && state == d.state {
		return d.last, nil
	}
	a := &authorities{
		roots: x509.NewCertPool(), between: x509.NewCertPool(), lists: map[string][]*x509.RevocationList{},
		policies: map[string][]policy{},
	}
	some := false
	for _, name := range names {
		one, err := a.take(filepath.Join(d.path, name), hashed(name))
		if err != nil {
			a.faults = append(a.faults, name+": "+short(err.Error()))
		}
		some = some || one
	}
	if !some {
		return nil, errs.New(errs.Unavailable, "there is no trusted authority in %s", d.path).
			With("the service's administrator puts the Grid's authorities there, as HASH.0 (`openssl rehash` makes such names)")
	}
	d.last, d.state = a, state
	return a, nil
}

// look returns the files that count, and what tells whether one of them has changed.
func (d *directory) look() (names []string, state string, err error) {
	f, err := os.Open(d.path)
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	entries, err := f.ReadDir(mostFiles)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, "", err
	}
	var b strings.Builder
	for _, e := range entries {
		if hashed(e.Name()) == "" {
			continue
		}
		names = append(names, e.Name())
		info, err := os.Stat(filepath.Join(d.path, e.Name())) // mostly links
		if err != nil {
			fmt.Fprintf(&b, "%s gone\n", e.Name())
			continue
		}
		fmt.Fprintf(&b, "%s %d %d\n", e.Name(), info.Size(), info.ModTime().UnixNano())
	}
	return names, b.String(), nil
}

// take reads a file, and says whether it is an authority's.
func (a *authorities) take(file, what string) (bool, error) {
	most := int64(mostAuthority)
	if what == "list" {
		most = mostList
	}
	text, err := readUpTo(file, most)
	if err != nil {
		return false, err
	}
	switch what {
	case "authority":
		return a.takeAuthority(text)
	case "list":
		return false, a.takeList(text)
	}
	for _, p := range readPolicies(text) {
		a.policies[modern(p.authority)] = append(a.policies[modern(p.authority)], p)
	}
	return false, nil
}

func readUpTo(file string, most int64) ([]byte, error) {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a file")
	case info.Size() > most:
		return nil, fmt.Errorf("it has more than %d bytes", most)
	}
	return os.ReadFile(file)
}

func (a *authorities) takeAuthority(text []byte) (bool, error) {
	c, err := x509.ParseCertificate(unwrapped(text, "CERTIFICATE"))
	switch {
	case err != nil:
		return false, err
	case c.BasicConstraintsValid && !c.IsCA:
		return false, errors.New("it is not the certificate of an authority")
	case selfIssued(c):
		a.roots.AddCert(c)
	default:
		a.between.AddCert(c)
	}
	return true, nil
}

func (a *authorities) takeList(text []byte) error {
	list, err := x509.ParseRevocationList(unwrapped(text, "X509 CRL"))
	if err == nil {
		a.lists[string(list.RawIssuer)] = append(a.lists[string(list.RawIssuer)], list)
	}
	return err
}

// unwrapped returns the DER of the first part of a PEM text that has that type, which may be DER itself.
func unwrapped(text []byte, what string) []byte {
	for rest := text; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return text
		} else if block.Type == what {
			return block.Bytes
		}
	}
}

func selfIssued(c *x509.Certificate) bool { return bytes.Equal(c.RawSubject, c.RawIssuer) }

// verify finds a way from a certificate to an authority that is trusted, all of which is permitted and nothing of which
// is revoked.
func (a *authorities) verify(
	c *x509.Certificate, others []*x509.Certificate, now time.Time,
) ([]*x509.Certificate, error) {
	between := a.between.Clone()
	for _, each := range others {
		between.AddCert(each)
	}
	chains, err := c.Verify(x509.VerifyOptions{
		Roots: a.roots, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	if err != nil {
		return nil, untrusted(c, err)
	}
	var last error
	for _, chain := range chains {
		if last = a.permitted(chain, now); last == nil {
			return chain, nil
		}
	}
	return nil, last
}

func untrusted(c *x509.Certificate, err error) error {
	name, issuer := nameOf(c.Subject), nameOf(c.Issuer)
	if selfIssued(c) {
		return refuse(
			"use a certificate of an authority that the Grid knows",
			"%s is signed by itself, and by no authority that this site trusts", name,
		)
	}
	if weak := weakSignature(c); weak != "" {
		return refuse(
			"get a new certificate of your authority", "%s is signed with %s, which is not taken any more", name, weak,
		)
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return refuse(
			"ask the site's administrator for the authorities of today",
			"the certificate of an authority above %s has expired, or is not valid yet", name,
		)
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return refuse("use a certificate of another authority, or ask the site's administrator to trust this one",
			"%s is signed by %s, and no authority that this site trusts stands behind it", name, issuer)
	}
	return refuse(
		"use a certificate of an authority that the Grid knows", "%s is not good: %s", name, short(err.Error()),
	)
}

// permitted holds a chain to the revocation lists and signing policies of its authorities.
func (a *authorities) permitted(chain []*x509.Certificate, now time.Time) error {
	for i, c := range chain[:len(chain)-1] {
		issuer := chain[i+1]
		policies, ok := a.policies[modern(nameOf(issuer.Subject))]
		if ok && !anyPermits(policies, nameOf(c.Subject)) {
			return refuse("ask the authority, or the site's administrator whether the signing policy is of today",
				"the authority %s may not vouch for %s by its signing policy", nameOf(issuer.Subject), nameOf(c.Subject))
		}
		if err := a.revoked(c, issuer, now); err != nil {
			return err
		}
	}
	return nil
}

func anyPermits(policies []policy, name string) bool {
	for _, p := range policies {
		if p.permits(name) {
			return true
		}
	}
	return false
}

// revoked looks a certificate up in all sound lists of its authority, for each may be of some certificates only. Where
// no list is sound it refuses: nobody knows what the next one says.
func (a *authorities) revoked(c, issuer *x509.Certificate, now time.Time) error {
	lists := a.lists[string(issuer.RawSubject)]
	if len(lists) == 0 {
		return nil
	}
	sound, why := false, ""
	for _, list := range lists {
		if fault := faultOf(list, issuer, now); fault != "" {
			why = fault
			continue
		}
		sound = true
		for _, entry := range list.RevokedCertificateEntries {
			if entry.SerialNumber.Cmp(c.SerialNumber) == 0 {
				return refuse(
					"get a new certificate of your authority",
					"the certificate of %s was revoked by its authority on %s", nameOf(c.Subject),
					clock(entry.RevocationTime),
				)
			}
		}
	}
	if sound {
		return nil
	}
	return refuse(
		"ask the site's administrator to run fetch-crl",
		"whether %s is revoked cannot be told: the site's revocation list of %s %s", nameOf(c.Subject),
		nameOf(issuer.Subject), why,
	)
}

// faultOf says why a list is of no use now; empty: it is. What is critical and not known may say that it is of some
// certificates only, or of changes.
func faultOf(list *x509.RevocationList, issuer *x509.Certificate, now time.Time) string {
	switch {
	case list.CheckSignatureFrom(issuer) != nil:
		return "is not signed by it"
	case now.Before(list.ThisUpdate):
		return "is not valid yet"
	case !list.NextUpdate.IsZero() && now.After(list.NextUpdate):
		return "has expired"
	case slices.ContainsFunc(list.Extensions, func(e pkix.Extension) bool { return e.Critical }):
		return "has a critical extension that is not known here"
	}
	return ""
}
