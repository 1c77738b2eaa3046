package x509proxy

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"slices"
	"strings"
	"time"

	"slipway/internal/secret"
)

// line is a proxy with those that it descends from.
type line struct {
	proxies []*x509.Certificate // the file's own first, and then whose proxy it is
	person  *x509.Certificate
	others  []*x509.Certificate // what else is in the file: authorities, if anything
}

// line finds whose proxy the first certificate is.
func (p parts) line() (line, error) {
	var l line
	rest := slices.Clone(p.certificates)
	current := rest[0]
	rest = rest[1:]
	for kindOf(current) != ordinary {
		l.proxies = append(l.proxies, current)
		i := slices.IndexFunc(rest, func(c *x509.Certificate) bool {
			return bytes.Equal(
				c.RawSubject, current.RawIssuer,
			) && c.CheckSignature(current.SignatureAlgorithm, current.RawTBSCertificate, current.Signature) == nil
		})
		if i < 0 {
			return l, orphan(current, rest)
		}
		current = rest[i]
		rest = slices.Delete(rest, i, i+1)
	}
	l.person, l.others = current, rest
	if len(l.proxies) == 0 {
		return l, notProxy(current)
	}
	return l, nil
}

// orphan says why no certificate of the file has signed a proxy.
func orphan(c *x509.Certificate, rest []*x509.Certificate) error {
	for _, each := range rest {
		if !bytes.Equal(each.RawSubject, c.RawIssuer) {
			continue
		}
		if weak := weakSignature(c); weak != "" {
			return refuse(again, "%s is signed with %s, which is not taken any more", nameOf(c.Subject), weak)
		}
		return refuse(again, "%s is not signed by the certificate whose proxy it says it is", nameOf(c.Subject))
	}
	return refuse(
		"send the file that voms-proxy-info -path names, with all that is in it",
		"the certificate of %s, which has made the proxy, is not in the file", nameOf(c.Issuer),
	)
}

func weakSignature(c *x509.Certificate) string {
	name := c.SignatureAlgorithm.String()
	if strings.HasPrefix(name, "MD") || strings.Contains(name, "SHA1") {
		return name
	}
	return ""
}

func notProxy(c *x509.Certificate) error {
	if c.IsCA {
		return refuse(
			again, "the first certificate of the file is that of an authority, %s, and not a proxy", nameOf(c.Subject),
		)
	}
	return refuse("never send that one; make a proxy of it: voms-proxy-init, with -voms and your organisation where you have one",
		"the first certificate of the file, %s, is your own and not a proxy", nameOf(c.Subject))
}

// check holds the line to the rules of proxies.
func (l line) check(key signer, now time.Time) error {
	public, ok := l.proxies[0].PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !public.Equal(key.Public()) {
		return refuse(again, "the private key in the file is not the proxy's")
	}
	if l.person.IsCA {
		return refuse(
			again, "the proxy is made of an authority, %s, and not of a person's certificate", nameOf(l.person.Subject),
		)
	}
	if !singles(l.person.RawSubject) {
		return refuse(
			"get a certificate whose name has one thing in each of its parts",
			"the name of your certificate, %s, can be read as another's", nameOf(l.person.Subject),
		)
	}
	if err := signs(l.person); err != nil {
		return err
	}
	for i, c := range l.proxies {
		if err := l.rules(i); err != nil {
			return err
		}
		if err := inTime(c, "the proxy", again, now); err != nil {
			return err
		}
	}
	return inTime(l.person, "your certificate", "get a new one of your authority: "+nameOf(l.person.Issuer), now)
}

// rules are those for the proxy at place i, which has that many below it.
func (l line) rules(i int) error {
	c, issuer := l.proxies[i], l.person
	if i+1 < len(l.proxies) {
		issuer = l.proxies[i+1]
	}
	name := nameOf(c.Subject)
	last, ok := extends(c.RawSubject, issuer.RawSubject)
	switch {
	case !ok:
		return refuse(
			again, "the proxy's name %s is not that of who has made it, %s, with one part more", name,
			nameOf(issuer.Subject),
		)
	case kindOf(c) != kindOf(l.proxies[0]):
		return refuse(again, "the file has proxies of different kinds")
	case kindOf(c) == draft:
		return refuse(
			"make one of today's kind: voms-proxy-init -rfc", "%s is of a kind that was a draft before RFC 3820", name,
		)
	case kindOf(c) == legacy && last == "limited proxy":
		return limited(name)
	case c.IsCA || c.KeyUsage&(x509.KeyUsageCertSign|x509.KeyUsageCRLSign) != 0:
		return refuse(again, "the proxy %s says that it is an authority", name)
	case len(c.DNSNames)+len(c.EmailAddresses)+len(c.IPAddresses)+len(c.URIs) > 0:
		return refuse(again, "the proxy %s has another name beside it, which no proxy may have", name)
	}
	if err := signs(c); i > 0 && err != nil {
		return err
	}
	if err := strange(c); err != nil {
		return err
	}
	if kindOf(c) == legacy {
		return nil
	}
	return use(c, name, i)
}

// strange refuses what is marked as necessary to understand, and is not understood.
func strange(c *x509.Certificate) error {
	for _, oid := range c.UnhandledCriticalExtensions {
		if oid.String() != proxyInfo {
			return refuse(
				again, "the proxy %s has an extension that must be understood and is not: %s", nameOf(c.Subject), oid,
			)
		}
	}
	return nil
}

// use judges what a proxy of RFC 3820 may be used for, and how many may come after it.
func use(c *x509.Certificate, name string, below int) error {
	value, _ := extension(c, proxyInfo)
	in, ok := readInfo(value)
	switch {
	case !ok || !critical(c, proxyInfo):
		return refuse(again, "what the proxy %s says of itself cannot be read", name)
	case in.path >= 0 && below > in.path:
		return refuse(
			again+", of your certificate itself", "%s permits %d proxies after it, and the file has %d", name, in.path,
			below,
		)
	case in.language == limitedUse:
		return limited(name)
	case in.language == independent:
		return refuse(again, "the proxy %s is an independent one, which has none of your rights", name)
	case in.language != inheritAll:
		return refuse(again, "the proxy %s is restricted in a language that is not known, %s", name, in.language)
	case in.policy:
		return refuse(again, "the proxy %s has all rights and a restriction at once", name)
	}
	return nil
}

func limited(name string) error {
	return refuse(
		"make a full one: voms-proxy-init, without -limited",
		"the proxy %s is a limited one, which sites take for some things and refuse for others", name,
	)
}

func critical(c *x509.Certificate, oid string) bool {
	return slices.ContainsFunc(
		c.UnhandledCriticalExtensions, func(id asn1.ObjectIdentifier) bool { return id.String() == oid },
	)
}

// signs refuses a certificate that may not sign, and has.
func signs(c *x509.Certificate) error {
	if c.KeyUsage != 0 && c.KeyUsage&x509.KeyUsageDigitalSignature == 0 {
		return refuse(
			"make the proxy of a certificate whose key usage has digitalSignature",
			"the key of %s may not make signatures, and has made a proxy's", nameOf(c.Subject),
		)
	}
	return nil
}

func inTime(c *x509.Certificate, what, remedy string, now time.Time) error {
	switch {
	case now.After(c.NotAfter):
		return refuse(remedy, "%s has expired on %s", what, clock(c.NotAfter))
	case now.Before(c.NotBefore):
		return refuse(
			"wait until then, or set the clock of the computer where it was made",
			"%s is not valid before %s, and it is %s here", what, clock(c.NotBefore), clock(now),
		)
	}
	return nil
}

func (l line) legacy() bool { return kindOf(l.proxies[0]) == legacy }

// expires is when the first part ends.
func (l line) expires(path []*x509.Certificate) time.Time {
	first := l.person.NotAfter
	for _, c := range slices.Concat(l.proxies, path) {
		if c.NotAfter.Before(first) {
			first = c.NotAfter
		}
	}
	return first
}

// pem writes the line as every program reads it: the proxy, its key, and those it descends from. Of the authorities
// those that the file has brought are kept, where they are needed.
func (l line) pem(key signer, path []*x509.Certificate) secret.Text {
	var b bytes.Buffer
	certificate := func(c *x509.Certificate) {
		_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}) // a buffer takes all
	}
	certificate(l.proxies[0])
	_ = pem.Encode(&b, key.block)
	for _, c := range l.proxies[1:] {
		certificate(c)
	}
	certificate(l.person)
	for _, c := range path {
		if c != l.person && slices.ContainsFunc(l.others, c.Equal) && !selfIssued(c) {
			certificate(c)
		}
	}
	return secret.New(b.String())
}
