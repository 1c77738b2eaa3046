package secretscan

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"path"
	"strings"
	"time"
)

const maxPEM = 64 << 10

// checkPEM checks what stands around PRIVATE KEY: the markers, and between them bytes that are a key. Markers alone, as
// in programs and manuals, are none.
func checkPEM(v view, at int) (hit, bool) {
	label, body, begin, ok := armor(v.content, at)
	if !ok {
		return hit{}, false
	}
	kind, ok := keyKind(label, body)
	if !ok {
		return hit{}, false
	}
	if kind == PrivateKey || kind == EncryptedKey {
		return v.refine(kind, begin)
	}
	return hit{kind, begin}, true
}

// armor returns the label before "PRIVATE KEY" at a place, what stands between the markers, and where the first one
// begins.
func armor(content []byte, at int) (label string, body []byte, begin int, ok bool) {
	const open = "-----BEGIN "
	from := max(0, at-len(open)-len("ENCRYPTED "))
	i := bytes.LastIndex(content[from:at], []byte(open))
	if i < 0 {
		return "", nil, 0, false
	}
	begin = from + i
	label = string(content[begin+len(open) : at])
	rest := content[at+len("PRIVATE KEY"):]
	rest = rest[:min(len(rest), maxPEM)]
	rest, _ = bytes.CutPrefix(rest, []byte(" BLOCK"))
	rest, ok = bytes.CutPrefix(rest, []byte("-----"))
	body, _, ended := bytes.Cut(rest, []byte("-----END "))
	return label, body, begin, ok && ended
}

// keyKind says which key a PEM body is, by its label.
func keyKind(label string, body []byte) (Kind, bool) {
	raw, sealed := decodeArmor(body)
	switch label {
	case "OPENSSH ":
		rest, ok := bytes.CutPrefix(raw, []byte("openssh-key-v1\x00\x00\x00\x00"))
		if !ok || len(rest) < 32 {
			return "", false
		}
		if bytes.HasPrefix(rest, []byte("\x04none")) {
			return PrivateKey, true
		}
		return EncryptedKey, true
	case "PGP ": // packet 5, a secret key, in the old or the new format (RFC 9580, 4.2)
		return PGPKey, len(raw) > 32 && (raw[0]&^3 == 0x94 || raw[0] == 0xc5)
	case "ENCRYPTED ": // PKCS #8 (RFC 5958, section 3): a sequence that begins with a sequence
		inner, ok := sequence(raw)
		return EncryptedKey, ok && inner[0] == 0x30
	case "", "RSA ", "EC ", "DSA ":
		if sealed {
			return EncryptedKey, len(raw) >= 32
		}
		inner, ok := sequence(raw) // all begin with a version (RFC 8017 A.1.2, RFC 5915 3, RFC 5958 2)
		return PrivateKey, ok && bytes.HasPrefix(inner, []byte{2, 1}) && len(raw) >= 32
	}
	return "", false
}

// decodeArmor decodes a PEM body as it stands in a file, or in a string of JSON, YAML or Python with its line ends
// written out. sealed tells a body that RFC 1421's headers call encrypted. It gives nil for what is not base64.
func decodeArmor(body []byte) (raw []byte, sealed bool) {
	text := strings.NewReplacer(`\\n`, "\n", `\n`, "\n", `\r`, "", "\r", "", `"`, "", "'", "", ",", "", `\`, "").Replace(string(body))
	var b strings.Builder
	for l := range strings.SplitSeq(text, "\n") {
		// Encrypted by RFC 1421: "Proc-Type: 4,ENCRYPTED", whose comma is gone here.
		if name, val, ok := strings.Cut(l, ":"); ok {
			sealed = sealed || strings.TrimSpace(name) == "Proc-Type" && strings.HasSuffix(
				strings.TrimSpace(val), "ENCRYPTED",
			)
			continue
		}
		l = strings.TrimSpace(l)
		if strings.HasPrefix(l, "=") { // PGP's checksum
			break
		}
		b.WriteString(l)
	}
	raw, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(b.String(), "="))
	if err != nil {
		return nil, sealed
	}
	return raw, sealed
}

// sequence returns what is in the DER sequence that raw is.
func sequence(raw []byte) ([]byte, bool) {
	if len(raw) < 4 || raw[0] != 0x30 {
		return nil, false
	}
	size, rest := int(raw[1]), raw[2:]
	if size > 0x80 && size <= 0x84 {
		n := size & 0x7f
		if len(rest) < n {
			return nil, false
		}
		size = 0
		for _, b := range rest[:n] {
			size = size<<8 | int(b)
		}
		rest = rest[n:]
	}
	return rest, size > 0 && size == len(rest)
}

// refine tells proxies, host keys and service accounts from other keys by what stands around them.
func (v view) refine(kind Kind, begin int) (hit, bool) {
	if cert := certificateBefore(v.content[:begin]); cert != nil && proxyCertificate(cert) {
		return hit{Proxy, begin}, !ended(cert, v.now)
	}
	base := path.Base(v.path)
	switch {
	case strings.HasPrefix(base, "ssh_host_"):
		kind = HostKey
	case bytes.Contains(v.content[max(0, begin-1000):begin], []byte(`"private_key"`)) && bytes.Contains(v.content, []byte(`"service_account"`)):
		kind = ServiceAccount
	}
	return hit{kind, begin}, true
}

// certificateBefore returns the certificate that content ends with, nil when there is none. A proxy's key follows its
// certificate: RFC 3820 says nothing of files, Globus and VOMS write them so.
func certificateBefore(content []byte) []byte {
	content = content[max(0, len(content)-maxPEM):]
	i := bytes.LastIndex(content, []byte("-----BEGIN CERTIFICATE-----"))
	if i < 0 {
		return nil
	}
	body, rest, ok := bytes.Cut(content[i+len("-----BEGIN CERTIFICATE-----"):], []byte("-----END CERTIFICATE-----"))
	if !ok || len(bytes.Trim(rest, " \t\r\n\\n\"',")) > 0 { // a string of JSON may end there and another begin
		return nil
	}
	raw, _ := decodeArmor(body)
	return raw
}

// proxyCertificate says whether a certificate has the extension proxyCertInfo (RFC 3820, section 3.8; before it,
// Globus' own number), or ends in the name that a proxy had before that.
func proxyCertificate(der []byte) bool {
	for _, mark := range []string{
		"\x06\x08\x2b\x06\x01\x05\x05\x07\x01\x0e", "\x06\x0a\x2b\x06\x01\x04\x01\x9b\x50\x01\x81\x5e",
		"\x55\x04\x03\x0c\x05proxy", "\x55\x04\x03\x13\x05proxy", "\x55\x04\x03\x13\x0dlimited proxy",
	} {
		if bytes.Contains(der, []byte(mark)) {
			return true
		}
	}
	return false
}

// ended says whether a certificate is one, and past its time: its key opens nothing any more.
func ended(der []byte, now time.Time) bool {
	cert, err := x509.ParseCertificate(der)
	return err == nil && cert.NotAfter.Before(now)
}

// checkWrappedPEM decodes base64 in which a PEM file is wrapped, and looks into it.
func checkWrappedPEM(v view, at int) (hit, bool) {
	text, _ := run(v.content[:min(len(v.content), at+2*maxPEM)], at, secretKeyByte)
	plain, err := base64.RawStdEncoding.DecodeString(string(text))
	if err != nil {
		return hit{}, false
	}
	inner := view{path: v.path, content: plain, now: v.now}
	for from := 0; ; {
		i := bytes.Index(plain[from:], []byte("PRIVATE KEY"))
		if i < 0 {
			return hit{}, false
		}
		if h, ok := checkPEM(inner, from+i); ok {
			return hit{h.kind, at}, true
		}
		from += i + 1
	}
}

// checkPuTTY checks that the file goes on to the private part.
func checkPuTTY(v view, at int) (hit, bool) {
	head := v.content[at:min(len(v.content), at+maxPEM)]
	if !bytes.Contains(head, []byte("Private-Lines: ")) {
		return hit{}, false
	}
	if bytes.Contains(head[:min(len(head), 200)], []byte("Encryption: none")) {
		return hit{PrivateKey, at}, true
	}
	return hit{EncryptedKey, at}, true
}
