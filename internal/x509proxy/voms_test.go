package x509proxy

import (
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/crypto/cryptobyte"
	casn1 "golang.org/x/crypto/cryptobyte/asn1"
)

// statement is what a VOMS server says of a person.
type statement struct {
	vo           string
	fqans        []string
	holder       []byte // the issuer's name there
	serial       *big.Int
	begins, ends time.Time
	server       *holder
	signer       crypto.Signer // other than the server's
	certificates []*x509.Certificate
	extensions   []pkix.Extension
	version      int64
}

func says(server, person *holder) statement {
	return statement{
		vo: "atlas", fqans: []string{"/atlas/Role=production/Capability=NULL", "/atlas"}, holder: person.cert.RawIssuer, serial: person.cert.SerialNumber,
		begins: now.Add(-time.Minute), ends: now.Add(6 * time.Hour), server: server, signer: server.key, certificates: []*x509.Certificate{server.cert}, version: 1,
	}
}

var (
	tag0 = casn1.Tag(0).ContextSpecific().Constructed()
	tag4 = casn1.Tag(4).ContextSpecific().Constructed()
	tag6 = casn1.Tag(6).ContextSpecific()
)

func addNames(b *cryptobyte.Builder, name []byte) {
	b.AddASN1(casn1.SEQUENCE, func(b *cryptobyte.Builder) {
		b.AddASN1(tag4, func(b *cryptobyte.Builder) { b.AddBytes(name) })
	})
}

func addAlgorithm(b *cryptobyte.Builder) {
	b.AddASN1(casn1.SEQUENCE, func(b *cryptobyte.Builder) { b.AddASN1ObjectIdentifier(oid("1.2.840.10045.4.3.2")) })
}

func (s statement) info() []byte {
	var b cryptobyte.Builder
	b.AddASN1(casn1.SEQUENCE, func(b *cryptobyte.Builder) {
		b.AddASN1Int64(s.version)
		b.AddASN1(casn1.SEQUENCE, func(b *cryptobyte.Builder) {
			b.AddASN1(tag0, func(b *cryptobyte.Builder) {
				addNames(b, s.holder)
				b.AddASN1BigInt(s.serial)
			})
		})
		b.AddASN1(tag0, func(b *cryptobyte.Builder) { addNames(b, s.server.cert.RawSubject) })
		addAlgorithm(b)
		b.AddASN1Int64(1)
		b.AddASN1(casn1.SEQUENCE, func(b *cryptobyte.Builder) {
			b.AddASN1GeneralizedTime(s.begins)
			b.AddASN1GeneralizedTime(s.ends)
		})
		b.AddASN1(casn1.SEQUENCE, s.addFQANs)
		b.AddASN1(casn1.SEQUENCE, s.addExtensions)
	})
	return b.BytesOrPanic()
}

func (s statement) addFQANs(b *cryptobyte.Builder) {
	b.AddASN1(casn1.SEQUENCE, func(b *cryptobyte.Builder) {
		b.AddASN1ObjectIdentifier(oid(vomsFQANs))
		b.AddASN1(casn1.SET, func(b *cryptobyte.Builder) {
			b.AddASN1(casn1.SEQUENCE, func(b *cryptobyte.Builder) {
				b.AddASN1(tag0, func(b *cryptobyte.Builder) {
					b.AddASN1(tag6, func(b *cryptobyte.Builder) { b.AddBytes([]byte(s.vo + "://voms.example.org:15001")) })
				})
				b.AddASN1(casn1.SEQUENCE, func(b *cryptobyte.Builder) {
					for _, f := range s.fqans {
						b.AddASN1OctetString([]byte(f))
					}
				})
			})
		})
	})
}

func (s statement) addExtensions(b *cryptobyte.Builder) {
	if len(s.certificates) > 0 {
		var list cryptobyte.Builder
		list.AddASN1(casn1.SEQUENCE, func(b *cryptobyte.Builder) {
			b.AddASN1(casn1.SEQUENCE, func(b *cryptobyte.Builder) {
				for _, c := range s.certificates {
					b.AddBytes(c.Raw)
				}
			})
		})
		addExtension(b, pkix.Extension{Id: oid(vomsServer), Value: list.BytesOrPanic()})
	}
	for _, e := range s.extensions {
		addExtension(b, e)
	}
}

func addExtension(b *cryptobyte.Builder, e pkix.Extension) {
	der, err := asn1.Marshal(e)
	if err != nil {
		panic(err)
	}
	b.AddBytes(der)
}

// extension makes it that of a proxy.
func (s statement) extension(t testing.TB) pkix.Extension {
	t.Helper()
	info := s.info()
	sum := sha256.Sum256(info)
	signature, err := s.signer.Sign(rand.Reader, sum[:], crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	var b cryptobyte.Builder
	b.AddASN1(casn1.SEQUENCE, func(b *cryptobyte.Builder) {
		b.AddASN1(casn1.SEQUENCE, func(b *cryptobyte.Builder) {
			b.AddASN1(casn1.SEQUENCE, func(b *cryptobyte.Builder) {
				b.AddBytes(info)
				addAlgorithm(b)
				b.AddASN1BitString(signature)
			})
		})
	})
	return pkix.Extension{Id: oid(vomsAttributes), Value: b.BytesOrPanic()}
}

// with adds what servers say to a proxy.
func with(t testing.TB, all ...statement) func(*x509.Certificate) {
	return func(c *x509.Certificate) {
		for _, s := range all {
			c.ExtraExtensions = append(c.ExtraExtensions, s.extension(t))
		}
	}
}

// vomsDir makes a directory of servers: that of atlas is the one given.
func vomsDir(t testing.TB, lines string) string {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "atlas"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "atlas", "voms.example.org.lsc"), []byte(lines), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

const goodLines = "/C=XX/O=Grid/CN=voms.example.org\n/C=XX/O=Grid/CN=Root\n"

func TestMembership(t *testing.T) {
	root := newAuthority(t, nil, "Root")
	alice, server := newPerson(t, root, "Alice"), newPerson(t, root, "voms.example.org")
	good := proxyOf(t, alice, with(t, says(server, alice)))
	for _, test := range []struct {
		title, dir string
		verified   bool
	}{
		{"without a directory of servers", "", false},
		{"with the server's names", vomsDir(t, goodLines), true},
		{"with a chain before it that is another's", vomsDir(t, "/C=XX/CN=old\n/C=XX/CN=CA\n------ NEXT CHAIN ------\n"+goodLines), true},
	} {
		p, err := check(newPlace(t, root).checker(t, func(c *Config) { c.VOMSDir = test.dir }), good.file(t))
		if err != nil {
			t.Errorf("%s: %v", test.title, err)
			continue
		}
		if p.VO != "atlas" || len(p.FQANs) != 2 || p.FQANs[1] != "/atlas" || p.Verified != test.verified || !p.Expires.Equal(now.Add(6*time.Hour)) {
			t.Errorf("%s: %+v", test.title, p)
		}
	}
}

func TestOlderVOMSNamesTheHolderItself(t *testing.T) {
	root := newAuthority(t, nil, "Root")
	alice, server := newPerson(t, root, "Alice"), newPerson(t, root, "voms.example.org")
	s := says(server, alice)
	s.holder = alice.cert.RawSubject
	if _, err := check(newPlace(t, root).checker(t, nil), proxyOf(t, alice, with(t, s)).file(t)); err != nil {
		t.Error(err)
	}
}

func TestMembershipThatIsNone(t *testing.T) {
	root, foreign := newAuthority(t, nil, "Root"), newAuthority(t, nil, "Foreign")
	alice, bob, server := newPerson(t, root, "Alice"), newPerson(t, root, "Bob"), newPerson(t, root, "voms.example.org")
	stranger := newPerson(t, foreign, "voms.example.org")
	changed := func(change func(*statement)) statement {
		s := says(server, alice)
		change(&s)
		return s
	}
	checker := newPlace(t, root).checker(t, func(c *Config) { c.VOMSDir = vomsDir(t, goodLines) })
	for _, test := range []struct {
		title, want string
		says        statement
	}{
		{"of another holder", "somebody else's", says(server, bob)},
		{"of another serial", "somebody else's", changed(func(s *statement) { s.serial = big.NewInt(1) })},
		{"of another issuer", "somebody else's", changed(func(s *statement) { s.holder = foreign.cert.RawSubject })},
		{"expired", "has expired on", changed(func(s *statement) { s.ends = now.Add(-time.Minute) })},
		{"not yet valid", "is not valid before", changed(func(s *statement) { s.begins = now.Add(time.Hour) })},
		{"signed by another", "is not signed by", changed(func(s *statement) { s.signer = bob.key })},
		{"without the server's certificate", "does not say which server", changed(func(s *statement) { s.certificates = nil })},
		{"with another's certificate", "comes with the certificate of", changed(func(s *statement) { s.certificates = []*x509.Certificate{bob.cert} })},
		{"by a server of a foreign authority", "no authority that this site trusts", says(stranger, alice)},
		{"by a trusted one that is no server", "is no server of atlas", says(bob, alice)},
		{"of an organisation that is not known", "knows no VOMS server of cms", changed(func(s *statement) { s.vo, s.fqans = "cms", []string{"/cms"} })},
		{"of an organisation that is a path", "cannot be read", changed(func(s *statement) { s.vo, s.fqans = "../atlas", []string{"/../atlas"} })},
		{"with another's group", "cannot be read", changed(func(s *statement) { s.fqans = []string{"/cms/Role=admin"} })},
		{"with a group that a terminal acts on", "cannot be read", changed(func(s *statement) { s.fqans = []string{"/atlas/\x1b[2J"} })},
		{"without groups", "cannot be read", changed(func(s *statement) { s.fqans = nil })},
		{"of another version", "cannot be read", changed(func(s *statement) { s.version = 0 })},
		{"for certain hosts", "certain hosts", changed(func(s *statement) {
			s.extensions = []pkix.Extension{{Id: oid(acTargets), Critical: true, Value: []byte{4, 0}}}
		})},
		{"with what must be understood", "must be understood", changed(func(s *statement) {
			s.extensions = []pkix.Extension{{Id: oid("1.2.3.4"), Critical: true, Value: []byte{4, 0}}}
		})},
	} {
		_, err := check(checker, proxyOf(t, alice, with(t, test.says)).file(t))
		refused(t, test.title, err, test.want)
	}
	_, err := check(checker, proxyOf(t, alice, func(c *x509.Certificate) {
		c.ExtraExtensions = append(c.ExtraExtensions, pkix.Extension{Id: oid(vomsAttributes), Value: []byte("nonsense")})
	}).file(t))
	refused(t, "that is nonsense", err, "cannot be read")
}
