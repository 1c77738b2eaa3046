package x509proxy

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"strings"
	"time"

	"golang.org/x/crypto/cryptobyte"
	casn1 "golang.org/x/crypto/cryptobyte/asn1"
)

// Names of what VOMS puts into a proxy.
const (
	vomsAttributes = "1.3.6.1.4.1.8005.100.100.5"  // the extension of a proxy: a list of attribute certificates
	vomsFQANs      = "1.3.6.1.4.1.8005.100.100.4"  // in one: groups and roles
	vomsServer     = "1.3.6.1.4.1.8005.100.100.10" // in one: the certificate of the server, and those above it
	acTargets      = "2.5.29.55"
)

const (
	mostAttributes = 10  // attribute certificates of a proxy
	mostFQANs      = 500 // of one of them
	longestFQAN    = 500
)

// attributes is one attribute certificate (RFC 5755), as VOMS uses it.
type attributes struct {
	signed         []byte
	algorithm      x509.SignatureAlgorithm
	signature      []byte
	holderIssuer   []byte // in DER; what a name there means differs between versions of VOMS
	holderSerial   *big.Int
	issuer         []byte // in DER
	begins, ends   time.Time
	vo             string
	fqans          []string
	certificates   []*x509.Certificate // the server's first
	targets        bool                // it is good for certain hosts only
	mustUnderstand string              // an extension that is not known; empty: none
}

// readAttributes reads the value of the extension of a proxy.
func readAttributes(der []byte) ([]attributes, bool) {
	in := cryptobyte.String(der)
	var all []attributes
	var outer, list cryptobyte.String
	if !in.ReadASN1(&outer, casn1.SEQUENCE) || !in.Empty() || !outer.ReadASN1(&list, casn1.SEQUENCE) || !outer.Empty() {
		return nil, false
	}
	for !list.Empty() {
		var one cryptobyte.String
		if len(all) == mostAttributes || !list.ReadASN1Element(&one, casn1.SEQUENCE) {
			return nil, false
		}
		a, ok := readOne(one)
		if !ok {
			return nil, false
		}
		all = append(all, a)
	}
	return all, true
}

func readOne(in cryptobyte.String) (attributes, bool) {
	var a attributes
	var outer, info, algorithm cryptobyte.String
	if !in.ReadASN1(&outer, casn1.SEQUENCE) || !outer.ReadASN1Element(&info, casn1.SEQUENCE) ||
		!outer.ReadASN1Element(&algorithm, casn1.SEQUENCE) || !outer.ReadASN1BitStringAsBytes(&a.signature) ||
		!outer.Empty() {
		return a, false
	}
	a.signed = info
	inner, ok := a.readInfo(info)
	// What signs is said twice, and only the inner one is signed.
	a.algorithm = algorithmOf(algorithm)
	return a, ok && string(inner) == string(algorithm)
}

// readInfo reads the part that is signed, and gives the algorithm that it names.
func (a *attributes) readInfo(in cryptobyte.String) (cryptobyte.String, bool) {
	var body, holder, issuer, algorithm, period, list cryptobyte.String
	var version int
	var serial big.Int
	if !in.ReadASN1(&body, casn1.SEQUENCE) || !body.ReadASN1Integer(&version) || version != 1 ||
		!body.ReadASN1(&holder, casn1.SEQUENCE) || !a.readHolder(holder) ||
		!body.ReadASN1(&issuer, casn1.Tag(0).ContextSpecific().Constructed()) || !a.readIssuer(issuer) ||
		!body.ReadASN1Element(&algorithm, casn1.SEQUENCE) || !body.ReadASN1Integer(&serial) ||
		!body.ReadASN1(&period, casn1.SEQUENCE) || !a.readPeriod(period) ||
		!body.ReadASN1(&list, casn1.SEQUENCE) || !a.readList(list) || !body.SkipOptionalASN1(casn1.BIT_STRING) {
		return nil, false
	}
	var extensions cryptobyte.String
	var has bool
	if !body.ReadOptionalASN1(&extensions, &has, casn1.SEQUENCE) || !body.Empty() {
		return nil, false
	}
	return algorithm, !has || a.readExtensions(extensions)
}

// readHolder reads whose the attributes are: the issuer and the serial of her certificate.
func (a *attributes) readHolder(in cryptobyte.String) bool {
	var base, names cryptobyte.String
	a.holderSerial = new(big.Int)
	ok := in.ReadASN1(
		&base, casn1.Tag(0).ContextSpecific().Constructed(),
	) && base.ReadASN1(&names, casn1.SEQUENCE) && base.ReadASN1Integer(a.holderSerial)
	return ok && readName(names, &a.holderIssuer)
}

func (a *attributes) readIssuer(in cryptobyte.String) bool {
	var names cryptobyte.String
	return in.ReadASN1(&names, casn1.SEQUENCE) && readName(names, &a.issuer)
}

// readName reads a list of names of which the first is that of a directory.
func readName(in cryptobyte.String, out *[]byte) bool {
	var wrapped cryptobyte.String
	var name cryptobyte.String
	if !in.ReadASN1(&wrapped, casn1.Tag(4).ContextSpecific().Constructed()) || !wrapped.ReadASN1Element(&name, casn1.SEQUENCE) || !wrapped.Empty() {
		return false
	}
	*out = name
	return true
}

func (a *attributes) readPeriod(in cryptobyte.String) bool {
	return in.ReadASN1GeneralizedTime(&a.begins) && in.ReadASN1GeneralizedTime(&a.ends) && in.Empty()
}

// readList reads the attributes themselves. Others than groups and roles are passed over.
func (a *attributes) readList(in cryptobyte.String) bool {
	for !in.Empty() {
		var one, values cryptobyte.String
		var oid asn1.ObjectIdentifier
		if !in.ReadASN1(&one, casn1.SEQUENCE) || !one.ReadASN1ObjectIdentifier(&oid) ||
			!one.ReadASN1(&values, casn1.SET) {
			return false
		}
		if oid.String() == vomsFQANs && !a.readFQANs(values) {
			return false
		}
	}
	return a.vo != "" && len(a.fqans) > 0
}

// readFQANs reads groups and roles, and by whose authority: "atlas://voms.cern.ch:15001".
func (a *attributes) readFQANs(in cryptobyte.String) bool {
	var body, authority, address, values cryptobyte.String
	if a.vo != "" || !in.ReadASN1(&body, casn1.SEQUENCE) || !in.Empty() || !body.ReadASN1(&authority, casn1.Tag(0).ContextSpecific().Constructed()) ||
		!authority.ReadASN1(&address, casn1.Tag(6).ContextSpecific()) || !body.ReadASN1(&values, casn1.SEQUENCE) {
		return false
	}
	vo, _, ok := strings.Cut(string(address), "://")
	if a.vo = vo; !ok || !safeVO(vo) {
		return false
	}
	for !values.Empty() {
		var one cryptobyte.String
		if len(a.fqans) == mostFQANs || !values.ReadASN1(&one, casn1.OCTET_STRING) || !a.ours(string(one)) {
			return false
		}
		a.fqans = append(a.fqans, string(one))
	}
	return true
}

// ours reports whether a group is one of the organisation, and can be shown.
func (a *attributes) ours(fqan string) bool {
	rest, ok := strings.CutPrefix(fqan, "/"+a.vo)
	return ok && (rest == "" || rest[0] == '/') && len(fqan) <= longestFQAN && plain(fqan) == fqan
}

// safeVO reports whether an organisation's name can be that of a directory.
func safeVO(vo string) bool {
	return vo != "" && len(vo) < 200 && vo[0] != '.' && strings.Trim(
		vo, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_",
	) == ""
}

func (a *attributes) readExtensions(in cryptobyte.String) bool {
	for !in.Empty() {
		var one, value cryptobyte.String
		var oid asn1.ObjectIdentifier
		critical := false
		if !in.ReadASN1(&one, casn1.SEQUENCE) || !one.ReadASN1ObjectIdentifier(&oid) ||
			!readCritical(&one, &critical) || !one.ReadASN1(&value, casn1.OCTET_STRING) {
			return false
		}
		switch name := oid.String(); {
		case name == vomsServer:
			if !a.readServer(value) {
				return false
			}
		case name == acTargets:
			a.targets = true
		case critical:
			a.mustUnderstand = name
		}
	}
	return true
}

func readCritical(in *cryptobyte.String, out *bool) bool {
	return !in.PeekASN1Tag(casn1.BOOLEAN) || in.ReadASN1Boolean(out)
}

// readServer reads the certificate of the server that has signed, and those above it.
func (a *attributes) readServer(in cryptobyte.String) bool {
	var outer, list cryptobyte.String
	if len(a.certificates) > 0 || !in.ReadASN1(&outer, casn1.SEQUENCE) || !outer.ReadASN1(&list, casn1.SEQUENCE) {
		return false
	}
	for !list.Empty() {
		var one cryptobyte.String
		if len(a.certificates) == mostCertificates || !list.ReadASN1Element(&one, casn1.SEQUENCE) {
			return false
		}
		c, err := x509.ParseCertificate(one)
		if err != nil {
			return false
		}
		a.certificates = append(a.certificates, c)
	}
	return true
}

// algorithmOf knows those that are taken.
func algorithmOf(in cryptobyte.String) x509.SignatureAlgorithm {
	var body cryptobyte.String
	var oid asn1.ObjectIdentifier
	if !in.ReadASN1(&body, casn1.SEQUENCE) || !body.ReadASN1ObjectIdentifier(&oid) {
		return x509.UnknownSignatureAlgorithm
	}
	return map[string]x509.SignatureAlgorithm{
		"1.2.840.113549.1.1.5": x509.SHA1WithRSA, "1.2.840.113549.1.1.11": x509.SHA256WithRSA,
		"1.2.840.113549.1.1.12": x509.SHA384WithRSA,
		"1.2.840.113549.1.1.13": x509.SHA512WithRSA, "1.2.840.10045.4.3.2": x509.ECDSAWithSHA256,
		"1.2.840.10045.4.3.3": x509.ECDSAWithSHA384,
		"1.2.840.10045.4.3.4": x509.ECDSAWithSHA512, "1.3.101.112": x509.PureEd25519,
	}[oid.String()]
}

// directoryName writes a name in DER on one line.
func directoryName(der []byte) string {
	var sequence pkix.RDNSequence
	var n pkix.Name
	if rest, err := asn1.Unmarshal(der, &sequence); err != nil || len(rest) > 0 {
		return ""
	}
	n.FillFromRDNSequence(&sequence)
	return nameOf(n)
}
