package x509proxy

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"slipway/internal/secret"
)

// now is the moment at which the tests check.
var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// holder is a certificate with its key, and those above it.
type holder struct {
	key    crypto.Signer
	cert   *x509.Certificate
	above  []*x509.Certificate
	parent *holder
}

func newKey(t testing.TB) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// name makes one of "O", "CN" parts: name("O", "Grid", "CN", "Alice").
func name(parts ...string) []byte {
	oids := map[string]asn1.ObjectIdentifier{"C": {2, 5, 4, 6}, "O": {2, 5, 4, 10}, "CN": {2, 5, 4, 3}, "DC": {0, 9, 2342, 19200300, 100, 1, 25}, "E": {1, 2, 840, 113549, 1, 9, 1}}
	var all pkix.RDNSequence
	for i := 0; i < len(parts); i += 2 {
		all = append(all, pkix.RelativeDistinguishedNameSET{{Type: oids[parts[i]], Value: parts[i+1]}})
	}
	der, err := asn1.Marshal(all)
	if err != nil {
		panic(err)
	}
	return der
}

// longer is a name with one more common name.
func longer(der []byte, common string) []byte {
	var all pkix.RDNSequence
	if _, err := asn1.Unmarshal(der, &all); err != nil {
		panic(err)
	}
	all = append(all, pkix.RelativeDistinguishedNameSET{{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: common}})
	out, err := asn1.Marshal(all)
	if err != nil {
		panic(err)
	}
	return out
}

func serial() *big.Int {
	n, _ := rand.Int(rand.Reader, big.NewInt(1<<62))
	return n
}

// issue signs a certificate. A nil issuer makes it sign itself.
func issue(t testing.TB, issuer *holder, subject []byte, key crypto.Signer, change func(*x509.Certificate)) *holder {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: serial(), RawSubject: subject, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(12 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, BasicConstraintsValid: true,
	}
	if change != nil {
		change(template)
	}
	h := &holder{key: key, parent: issuer}
	parent, signer := template, key
	if issuer != nil {
		// Go keeps to the rules of authorities, and a proxy's issuer is none: a stand-in with its name is taken.
		parent, signer = &x509.Certificate{RawSubject: issuer.cert.RawSubject}, issuer.key
		h.above = append([]*x509.Certificate{issuer.cert}, issuer.above...)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	if h.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return h
}

func newAuthority(t testing.TB, issuer *holder, common string) *holder {
	return issue(t, issuer, name("C", "XX", "O", "Grid", "CN", common), newKey(t), func(c *x509.Certificate) {
		c.IsCA, c.KeyUsage = true, x509.KeyUsageCertSign|x509.KeyUsageCRLSign
		c.NotBefore, c.NotAfter = now.AddDate(-1, 0, 0), now.AddDate(1, 0, 0)
	})
}

func newPerson(t testing.TB, authority *holder, common string) *holder {
	return issue(t, authority, name("C", "XX", "O", "Grid", "CN", common), newKey(t), func(c *x509.Certificate) {
		c.NotBefore, c.NotAfter = now.AddDate(0, -1, 0), now.AddDate(0, 6, 0)
	})
}

// infoOf makes the extension that makes a proxy.
func infoOf(language string, path int, policy []byte) pkix.Extension {
	type use struct {
		Language asn1.ObjectIdentifier
		Policy   []byte `asn1:"optional,omitempty"`
	}
	var value any = struct{ Use use }{use{oid(language), policy}}
	if path >= 0 {
		value = struct {
			Path int
			Use  use
		}{path, use{oid(language), policy}}
	}
	der, err := asn1.Marshal(value)
	if err != nil {
		panic(err)
	}
	return pkix.Extension{Id: oid(proxyInfo), Critical: true, Value: der}
}

func oid(text string) asn1.ObjectIdentifier {
	var out asn1.ObjectIdentifier
	for part := range strings.SplitSeq(text, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			panic(err)
		}
		out = append(out, n)
	}
	return out
}

// proxyOf makes a proxy of RFC 3820 that may do all.
func proxyOf(t testing.TB, of *holder, change func(*x509.Certificate)) *holder {
	return issue(t, of, longer(of.cert.RawSubject, "4711"), newKey(t), func(c *x509.Certificate) {
		c.BasicConstraintsValid = false
		c.ExtraExtensions = []pkix.Extension{infoOf(inheritAll, -1, nil)}
		if change != nil {
			change(c)
		}
	})
}

// saying makes a proxy's extension another one.
func saying(language string, path int, policy []byte) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.ExtraExtensions[0] = infoOf(language, path, policy) }
}

func certificatePEM(c *x509.Certificate) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
}

func keyPEM(t testing.TB, key crypto.Signer) string {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// file is how the proxy lies on a disk.
func (h *holder) file(t testing.TB) string {
	out := certificatePEM(h.cert) + keyPEM(t, h.key)
	for _, c := range h.above {
		if !c.IsCA {
			out += certificatePEM(c)
		}
	}
	return out
}

// place is a directory of authorities.
type place struct {
	dir string
	n   int
}

func newPlace(t testing.TB, trusted ...*holder) *place {
	p := &place{dir: t.TempDir()}
	for _, h := range trusted {
		p.trust(t, h)
	}
	return p
}

func (p *place) trust(t testing.TB, h *holder) {
	p.put(t, fmt.Sprintf("%08x.0", p.n), certificatePEM(h.cert))
	p.n++
}

func (p *place) put(t testing.TB, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// revokes writes a revocation list of an authority.
func (p *place) revokes(t testing.TB, authority *holder, next time.Time, revoked ...*holder) {
	t.Helper()
	p.list(t, 0, authority, func(l *x509.RevocationList) { l.NextUpdate = next }, revoked...)
}

// list writes one of several revocation lists of an authority.
func (p *place) list(t testing.TB, n int, authority *holder, change func(*x509.RevocationList), revoked ...*holder) {
	t.Helper()
	template := &x509.RevocationList{Number: serial(), ThisUpdate: now.Add(-time.Hour), NextUpdate: now.Add(time.Hour)}
	for _, h := range revoked {
		template.RevokedCertificateEntries = append(template.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: h.cert.SerialNumber, RevocationTime: now.Add(-2 * time.Hour)})
	}
	change(template)
	der, err := x509.CreateRevocationList(rand.Reader, template, authority.cert, authority.key)
	if err != nil {
		t.Fatal(err)
	}
	p.put(t, fmt.Sprintf("00000000.r%d", n), string(pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der})))
}

func (p *place) checker(t testing.TB, change func(*Config)) *Checker {
	t.Helper()
	cfg := Config{Trust: p.dir, Now: func() time.Time { return now }}
	if change != nil {
		change(&cfg)
	}
	c, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func check(c *Checker, text string) (Proxy, error) { return c.Check(secret.New(text)) }
