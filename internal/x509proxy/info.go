package x509proxy

import (
	"crypto/x509"
	"encoding/asn1"

	"golang.org/x/crypto/cryptobyte"
	casn1 "golang.org/x/crypto/cryptobyte/asn1"
)

// Names of what makes a certificate a proxy, and of what it may be used for.
const (
	proxyInfo   = "1.3.6.1.5.5.7.1.14"       // RFC 3820
	draftInfo   = "1.3.6.1.4.1.3536.1.222"   // a draft of it
	inheritAll  = "1.3.6.1.5.5.7.21.1"       // for all that its holder may
	independent = "1.3.6.1.5.5.7.21.2"       // for nothing of it
	limitedUse  = "1.3.6.1.4.1.3536.1.1.1.9" // not for starting jobs
)

// info is the extension that makes a certificate a proxy.
type info struct {
	path     int // how many proxies may follow; -1: any number
	language string
	policy   bool // there is one
}

// readInfo reads the extension's value.
func readInfo(der []byte) (info, bool) {
	in := cryptobyte.String(der)
	var body, policy cryptobyte.String
	out := info{path: -1}
	if !in.ReadASN1(&body, casn1.SEQUENCE) || !in.Empty() {
		return out, false
	}
	if body.PeekASN1Tag(casn1.INTEGER) && (!body.ReadASN1Integer(&out.path) || out.path < 0) {
		return out, false
	}
	var language asn1.ObjectIdentifier
	if !body.ReadASN1(&policy, casn1.SEQUENCE) || !body.Empty() || !policy.ReadASN1ObjectIdentifier(&language) {
		return out, false
	}
	out.language = language.String()
	var value cryptobyte.String
	if !policy.ReadOptionalASN1(&value, &out.policy, casn1.OCTET_STRING) || !policy.Empty() {
		return out, false
	}
	return out, true
}

// kind is what a certificate is.
type kind int

const (
	ordinary kind = iota
	rfc
	legacy
	draft
)

// kindOf tells proxies apart from other certificates. One of the older kind has only its name to be known by.
func kindOf(c *x509.Certificate) kind {
	if _, ok := extension(c, proxyInfo); ok {
		return rfc
	}
	if _, ok := extension(c, draftInfo); ok {
		return draft
	}
	if last, ok := extends(c.RawSubject, c.RawIssuer); ok && (last == "proxy" || last == "limited proxy") {
		return legacy
	}
	return ordinary
}

// extension returns the value of an extension.
func extension(c *x509.Certificate, oid string) ([]byte, bool) {
	for _, e := range c.Extensions {
		if e.Id.String() == oid {
			return e.Value, true
		}
	}
	return nil, false
}
