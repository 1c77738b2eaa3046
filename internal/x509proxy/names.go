package x509proxy

import (
	"bytes"
	"crypto/x509/pkix"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/crypto/cryptobyte"
	"golang.org/x/crypto/cryptobyte/asn1"
)

// labels are the short names of what names are made of, as OpenSSL and with it the whole Grid writes them.
func label(oid string) string {
	known := map[string]string{
		"2.5.4.3": "CN", "2.5.4.4": "SN", "2.5.4.5": "serialNumber", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST",
		"2.5.4.9":  "street",
		"2.5.4.10": "O", "2.5.4.11": "OU", "2.5.4.12": "title", "2.5.4.42": "GN",
		"1.2.840.113549.1.9.1":      "emailAddress",
		"0.9.2342.19200300.100.1.1": "UID", "0.9.2342.19200300.100.1.25": "DC",
	}
	if name, ok := known[oid]; ok {
		return name
	}
	return oid
}

// nameOf writes a name on one line with slashes. What a terminal would act on is escaped, and so is a slash in a part
// that would make two of it: people are known by these words.
func nameOf(n pkix.Name) string {
	var b strings.Builder
	for _, part := range n.Names {
		value := likeParts.ReplaceAllString(plain(fmt.Sprint(part.Value)), `\x2F$1`)
		b.WriteString("/" + label(part.Type.String()) + "=" + value)
	}
	return short(b.String())
}

// likeParts finds what reads as the beginning of another part of a name.
var likeParts = regexp.MustCompile(`/([A-Za-z]+=|[0-9.]+=)`)

// plain escapes what is not printable in ASCII, as OpenSSL does.
func plain(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		if c < ' ' || c > '~' {
			fmt.Fprintf(&b, `\x%02X`, c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// short cuts words of others, which may be long.
func short(text string) string {
	const most = 512
	if text = plain(text); len(text) > most {
		return text[:most] + "..."
	}
	return text
}

// sameName reports whether two names on one line are the same. Some write the labels of old.
func sameName(a, b string) bool { return modern(a) == modern(b) }

func modern(name string) string {
	return strings.NewReplacer(
		"/E=", "/emailAddress=", "/Email=", "/emailAddress=", "/USERID=", "/UID=",
	).Replace(strings.TrimSpace(name))
}

var commonName = []byte{0x55, 0x04, 0x03} // 2.5.4.3

// extends reports whether a name is another one with one more common name at its end, and gives that.
func extends(longer, shorter []byte) (string, bool) {
	a, okA := relatives(longer)
	b, okB := relatives(shorter)
	if !okA || !okB || len(a) != len(b)+1 {
		return "", false
	}
	for i := range b {
		if !bytes.Equal(a[i], b[i]) {
			return "", false
		}
	}
	return common(a[len(b)])
}

// relatives returns the parts of a name in DER.
func relatives(der []byte) ([][]byte, bool) {
	var all [][]byte
	in, list := cryptobyte.String(der), cryptobyte.String(nil)
	if !in.ReadASN1(&list, asn1.SEQUENCE) || !in.Empty() {
		return nil, false
	}
	for !list.Empty() {
		var one cryptobyte.String
		if !list.ReadASN1Element(&one, asn1.SET) {
			return nil, false
		}
		all = append(all, one)
	}
	return all, true
}

// singles reports whether a name has one thing in each of its parts. Written on one line, it could be another's
// otherwise.
func singles(der []byte) bool {
	parts, ok := relatives(der)
	return ok && !slices.ContainsFunc(parts, func(part []byte) bool {
		in, set := cryptobyte.String(part), cryptobyte.String(nil)
		return !in.ReadASN1(&set, asn1.SET) || !set.SkipASN1(asn1.SEQUENCE) || !set.Empty()
	})
}

// common returns the common name that a part of a name is.
func common(der []byte) (string, bool) {
	in := cryptobyte.String(der)
	var set, pair, oid, value cryptobyte.String
	var tag asn1.Tag
	ok := in.ReadASN1(&set, asn1.SET) && set.ReadASN1(&pair, asn1.SEQUENCE) && set.Empty() &&
		pair.ReadASN1(&oid, asn1.OBJECT_IDENTIFIER) && bytes.Equal(oid, commonName) && pair.ReadAnyASN1(&value, &tag) &&
		pair.Empty()
	return string(value), ok
}
