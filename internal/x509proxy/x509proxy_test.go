package x509proxy

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"net"
	"strings"
	"testing"
	"time"

	"slipway/internal/errs"
	"slipway/internal/secret"
)

// refused holds an error to be one that a user can do something about.
func refused(t *testing.T, title string, err error, want string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: it is taken", title)
		return
	}
	e, ok := err.(*errs.Error)
	if !ok || e.Kind != errs.Invalid || e.Field != "proxy" || e.Remedy == "" || !strings.Contains(e.Message, want) {
		t.Errorf("%s: %v, want %q with the field and a remedy", title, err, want)
	}
	if strings.Contains(err.Error(), "PRIVATE KEY") {
		t.Errorf("%s: the error shows what was sent: %v", title, err)
	}
}

func TestGood(t *testing.T) {
	root := newAuthority(t, nil, "Root")
	between := newAuthority(t, root, "Between")
	alice := newPerson(t, root, "Alice")
	carol := newPerson(t, between, "Carol")
	old := func(of *holder) *holder { return issue(t, of, longer(of.cert.RawSubject, "proxy"), newKey(t), nil) }
	for _, test := range []struct {
		title   string
		file    string
		trusted []*holder
		depth   int
		legacy  bool
		who     string
	}{
		{"a proxy", proxyOf(t, alice, nil).file(t), []*holder{root}, 1, false, "Alice"},
		{"a proxy of a proxy", proxyOf(t, proxyOf(t, alice, saying(inheritAll, 1, nil)), nil).file(t), []*holder{root}, 2, false, "Alice"},
		{"one of the older kind", old(alice).file(t), []*holder{root}, 1, true, "Alice"},
		{"two of the older kind", old(old(alice)).file(t), []*holder{root}, 2, true, "Alice"},
		{"an authority between that the site has", proxyOf(t, carol, nil).file(t), []*holder{root, between}, 1, false, "Carol"},
		{"an authority between that the file has", proxyOf(t, carol, nil).file(t) + certificatePEM(between.cert), []*holder{root}, 1, false, "Carol"},
		{"the root in the file too", proxyOf(t, alice, nil).file(t) + certificatePEM(root.cert), []*holder{root}, 1, false, "Alice"},
		{"words around it", "hello\n" + proxyOf(t, alice, nil).file(t) + "\nbye", []*holder{root}, 1, false, "Alice"},
	} {
		p, err := check(newPlace(t, test.trusted...).checker(t, nil), test.file)
		if err != nil {
			t.Errorf("%s: %v", test.title, err)
			continue
		}
		if p.Depth != test.depth || p.Legacy != test.legacy || p.Subject != "/C=XX/O=Grid/CN="+test.who || !p.Expires.Equal(now.Add(12*time.Hour)) {
			t.Errorf("%s: %+v", test.title, p)
		}
		// What it is written as is good where the file was, and is written the same again.
		again, err := check(newPlace(t, test.trusted...).checker(t, nil), p.Text.Reveal())
		if err != nil || again.Text != p.Text || strings.Contains(p.Text.Reveal(), "hello") {
			t.Errorf("%s: written, it is not the same: %v", test.title, err)
		}
	}
}

func TestRefused(t *testing.T) {
	root, foreign := newAuthority(t, nil, "Root"), newAuthority(t, nil, "Foreign")
	alice, bob := newPerson(t, root, "Alice"), newPerson(t, root, "Bob")
	impostor := newAuthority(t, nil, "Root") // has the name of one that is trusted
	good, ofRoot := proxyOf(t, alice, nil), proxyOf(t, root, nil)
	checker := newPlace(t, root).checker(t, func(c *Config) { c.Longest = 24 * time.Hour })
	self := issue(t, nil, name("O", "Grid", "CN", "Alice"), newKey(t), nil)
	made := func(change func(*x509.Certificate)) string { return proxyOf(t, alice, change).file(t) }
	named := func(subject []byte) string {
		return issue(t, alice, subject, newKey(t), func(c *x509.Certificate) { c.ExtraExtensions = []pkix.Extension{infoOf(inheritAll, -1, nil)} }).file(t)
	}
	person := func(change func(*x509.Certificate)) *holder {
		return issue(t, root, name("O", "Grid", "CN", "X"), newKey(t), change)
	}
	for _, test := range []struct{ title, want, file string }{
		{"a foreign authority", "no authority that this site trusts", proxyOf(t, newPerson(t, foreign, "Alice"), nil).file(t)},
		{"an impostor of an authority", "no authority that this site trusts", proxyOf(t, newPerson(t, impostor, "Alice"), nil).file(t)},
		{"a foreign authority that comes along", "no authority that this site trusts", proxyOf(t, newPerson(t, foreign, "A"), nil).file(t) + certificatePEM(foreign.cert)},
		{"an authority of one's own", "signed by itself", proxyOf(t, self, nil).file(t)},
		{"a person as authority", "no authority that this site trusts", proxyOf(t, issue(t, bob, name("O", "Grid", "CN", "Carol"), newKey(t), nil), nil).file(t) + certificatePEM(bob.cert)},
		{"an authority's proxy", "made of an authority", ofRoot.file(t) + certificatePEM(root.cert)},
		{"a name of two in one part", "can be read as another's", proxyOf(t, issue(t, root, twofold(t), newKey(t), nil), nil).file(t)},
		{"expired", "the proxy has expired on 22 November 2026 11:59:00 UTC", made(func(c *x509.Certificate) { c.NotAfter = now.Add(-time.Minute) })},
		{"expired above", "the proxy has expired", proxyOf(t, proxyOf(t, alice, func(c *x509.Certificate) { c.NotAfter = now.Add(-time.Minute) }), nil).file(t)},
		{"expired person", "your certificate has expired", proxyOf(t, person(func(c *x509.Certificate) { c.NotAfter = now.Add(-time.Minute) }), nil).file(t)},
		{"not yet valid", "is not valid before", made(func(c *x509.Certificate) { c.NotBefore = now.Add(time.Hour) })},
		{"too long", "this site takes 24h0m0s at most", made(func(c *x509.Certificate) { c.NotAfter = now.Add(48 * time.Hour) })},
		{"limited", "a limited one", made(saying(limitedUse, -1, nil))},
		{"limited above", "a limited one", proxyOf(t, proxyOf(t, alice, saying(limitedUse, -1, nil)), nil).file(t)},
		{"limited of the older kind", "a limited one", issue(t, alice, longer(alice.cert.RawSubject, "limited proxy"), newKey(t), nil).file(t)},
		{"independent", "an independent one", made(saying(independent, -1, nil))},
		{"restricted", "restricted in a language", made(saying("1.2.3.4", -1, []byte("read only")))},
		{"all and restricted", "a restriction at once", made(saying(inheritAll, -1, []byte("x")))},
		{"longer than its path", "permits 0 proxies after it", proxyOf(t, proxyOf(t, alice, saying(inheritAll, 0, nil)), nil).file(t)},
		{"longer than its path, two below", "permits 1 proxies after it, and the file has 2", proxyOf(t, proxyOf(t, proxyOf(t, alice, saying(inheritAll, 1, nil)), nil), nil).file(t)},
		{"another's name", "is not that of who has made it", named(longer(bob.cert.RawSubject, "1"))},
		{"the same name", "is not that of who has made it", named(alice.cert.RawSubject)},
		{"a name longer by two", "is not that of who has made it", named(longer(longer(alice.cert.RawSubject, "1"), "2"))},
		{"a name longer by no common name", "is not that of who has made it", named(name("C", "XX", "O", "Grid", "CN", "Alice", "O", "X"))},
		{"signed by another", "is not signed by the certificate", issue(t, &holder{key: bob.key, cert: alice.cert}, longer(alice.cert.RawSubject, "1"), newKey(t), func(c *x509.Certificate) { c.ExtraExtensions = []pkix.Extension{infoOf(inheritAll, -1, nil)} }).file(t)},
		{"another's key", "is not the proxy's", certificatePEM(good.cert) + keyPEM(t, bob.key) + certificatePEM(alice.cert)},
		{"the person's key", "is not the proxy's", certificatePEM(good.cert) + keyPEM(t, alice.key) + certificatePEM(alice.cert)},
		{"two kinds", "different kinds", issue(t, good, longer(good.cert.RawSubject, "proxy"), newKey(t), nil).file(t)},
		{"a draft's kind", "a draft before RFC 3820", made(func(c *x509.Certificate) { c.ExtraExtensions[0].Id = oid(draftInfo) })},
		{"not marked as necessary", "cannot be read", made(func(c *x509.Certificate) { c.ExtraExtensions[0].Critical = false })},
		{"saying nonsense", "cannot be read", made(func(c *x509.Certificate) { c.ExtraExtensions[0].Value = []byte("nonsense") })},
		{"saying more than it should", "cannot be read", made(func(c *x509.Certificate) { c.ExtraExtensions[0].Value = append(c.ExtraExtensions[0].Value, 5, 0) })},
		{"what must be understood", "must be understood and is not: 1.2.3.4", made(func(c *x509.Certificate) {
			c.ExtraExtensions = append(c.ExtraExtensions, pkix.Extension{Id: oid("1.2.3.4"), Critical: true, Value: []byte{5, 0}})
		})},
		{"a proxy that is an authority", "says that it is an authority", made(func(c *x509.Certificate) { c.BasicConstraintsValid, c.IsCA = true, true })},
		{"a proxy that signs certificates", "says that it is an authority", made(func(c *x509.Certificate) { c.KeyUsage |= x509.KeyUsageCertSign })},
		{"a proxy with another name", "another name beside it", made(func(c *x509.Certificate) { c.IPAddresses = []net.IP{{10, 0, 0, 1}} })},
		{"a person who may not sign", "may not make signatures", proxyOf(t, person(func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageKeyEncipherment }), nil).file(t)},
		{"a proxy that may not sign, and has", "may not make signatures", proxyOf(t, proxyOf(t, alice, func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageKeyEncipherment }), nil).file(t)},
		{"a weak curve", "a curve of 224 bits", weak(t, alice)},
		{"one's own certificate", "is your own and not a proxy", alice.file(t)},
		{"an authority's", "that of an authority", certificatePEM(root.cert) + keyPEM(t, root.key)},
		{"no certificate", "there is no certificate", keyPEM(t, good.key)},
		{"no key", "no private key", certificatePEM(good.cert) + certificatePEM(alice.cert)},
		{"two keys", "two private keys", good.file(t) + keyPEM(t, alice.key)},
		{"no chain", "is not in the file", certificatePEM(good.cert) + keyPEM(t, good.key)},
		{"an encrypted key", "has a passphrase", certificatePEM(good.cert) + "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n"},
		{"an encrypted key of old", "has a passphrase", certificatePEM(good.cert) + "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: DES-EDE3-CBC,00\n\nAAAA\n-----END RSA PRIVATE KEY-----\n"},
		{"a broken key", "cannot be read", certificatePEM(good.cert) + "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n" + certificatePEM(alice.cert)},
		{"a broken certificate", "certificate 1 of the file cannot be read", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"},
		{"a request", `type "CERTIFICATE REQUEST"`, good.file(t) + "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"},
		{"nothing", "is empty", " \n"},
		{"words", "there is no certificate", "ghp_abc"},
		{"too much", "larger than 128 kB", strings.Repeat(good.file(t), 200)},
		{"too many", "more than 20 certificates", strings.Repeat(certificatePEM(good.cert), 21)},
		{"a bomb", "larger than 128 kB", strings.Repeat("-----BEGIN ", 20_000)},
		{"beginnings alone", "there is no certificate", strings.Repeat("-----BEGIN CERTIFICATE-----\n", 4_000)},
	} {
		_, err := check(checker, test.file)
		refused(t, test.title, err, test.want)
	}
}

// twofold is a name whose last part has two common names.
func twofold(t *testing.T) []byte {
	t.Helper()
	oid := asn1.ObjectIdentifier{2, 5, 4, 3}
	der, err := asn1.Marshal(pkix.RDNSequence{{{Type: oid, Value: "Eve"}, {Type: oid, Value: "alice"}}})
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// TestNamesOnOneLine: a part that reads as two is not written as two.
func TestNamesOnOneLine(t *testing.T) {
	for _, tc := range []struct{ der, want string }{
		{string(name("O", "Grid", "CN", "Eve", "CN", "alice")), "/O=Grid/CN=Eve/CN=alice"},
		{string(name("O", "Grid", "CN", "Eve/CN=alice")), `/O=Grid/CN=Eve\x2FCN=alice`},
		{string(name("O", "Grid", "CN", "Eve/1.2.3=alice")), `/O=Grid/CN=Eve\x2F1.2.3=alice`},
		{string(name("O", "Grid", "CN", "host/a.example")), "/O=Grid/CN=host/a.example"},
	} {
		var list pkix.RDNSequence
		if _, err := asn1.Unmarshal([]byte(tc.der), &list); err != nil {
			t.Fatal(err)
		}
		var n pkix.Name
		n.FillFromRDNSequence(&list)
		if got := nameOf(n); got != tc.want {
			t.Errorf("%s, want %s", got, tc.want)
		}
	}
}

// weak is a proxy with a key on too small a curve.
func weak(t *testing.T, of *holder) string {
	key, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return issue(t, of, longer(of.cert.RawSubject, "1"), key, func(c *x509.Certificate) { c.ExtraExtensions = []pkix.Extension{infoOf(inheritAll, -1, nil)} }).file(t)
}

func TestKeyOfAnyFormat(t *testing.T) {
	root := newAuthority(t, nil, "Root")
	alice := newPerson(t, root, "Alice")
	good := proxyOf(t, alice, nil)
	der, err := x509.MarshalECPrivateKey(good.key.(*ecdsa.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	file := certificatePEM(good.cert) + "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n" +
		string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})) + certificatePEM(alice.cert)
	if _, err := check(newPlace(t, root).checker(t, nil), file); err != nil {
		t.Error(err)
	}
}

func TestScreen(t *testing.T) {
	alice := newPerson(t, newAuthority(t, nil, "Root"), "Alice")
	if err := Screen(secret.New(proxyOf(t, alice, nil).file(t)), now); err != nil {
		t.Error(err)
	}
	refused(t, "one's own certificate", Screen(secret.New(alice.file(t)), now), "is your own and not a proxy")
	refused(t, "nothing", Screen(secret.New(""), now), "is empty")
}
