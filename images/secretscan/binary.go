package secretscan

import (
	"bytes"
	"encoding/binary"
)

// magic tells files by their first bytes.
func magic(content []byte) (Kind, bool) {
	if len(content) < 16 {
		return "", false
	}
	switch {
	case content[0] == 5 && (content[1] == 3 || content[1] == 4):
		return KerberosTicket, ccache(content)
	case content[0] == 5 && content[1] == 2:
		return KerberosKeytab, keytab(content)
	case bytes.HasPrefix(content, []byte{0x03, 0xd9, 0xa2, 0x9a, 0x67, 0xfb, 0x4b, 0xb5}): // keepass.info, KDBX
		return KeePass, true
	}
	return "", false
}

// ccache reads MIT Kerberos' credential cache, formats 3 and 4 ("Credential cache file format"), up to its principal. A
// cache without anything behind that holds no ticket.
func ccache(raw []byte) bool {
	version, raw := raw[1], raw[2:]
	if version == 4 {
		size := int(binary.BigEndian.Uint16(raw))
		if 2+size > len(raw) {
			return false
		}
		raw = raw[2+size:]
	}
	if len(raw) < 8 {
		return false
	}
	parts := binary.BigEndian.Uint32(raw[4:])
	raw = raw[8:]
	for range min(parts, 16) + 1 { // the realm first
		if len(raw) < 4 {
			return false
		}
		size := binary.BigEndian.Uint32(raw)
		if size > 1024 || int(size) > len(raw)-4 || !printable(raw[4:4+size]) {
			return false
		}
		raw = raw[4+size:]
	}
	return parts > 0 && parts <= 16 && len(raw) > 64
}

// keytab reads the first entry of MIT Kerberos' "Keytab file format", version 2: its size, and a realm that is text.
func keytab(raw []byte) bool {
	raw = raw[2:]
	for len(raw) > 8 {
		size := int32(binary.BigEndian.Uint32(raw))
		if size == 0 || int64(max(size, -size)) > int64(len(raw)-4) || size == -size {
			return false
		}
		if size > 0 {
			parts, realm := binary.BigEndian.Uint16(raw[4:]), int(binary.BigEndian.Uint16(raw[6:]))
			return parts > 0 && parts <= 16 && realm > 0 && realm <= int(size)-4 && printable(raw[8:8+realm])
		}
		raw = raw[4-size:] // a hole where an entry was deleted
	}
	return false
}

func printable(s []byte) bool {
	for _, b := range s {
		if b < 0x20 || b == 0x7f {
			return false
		}
	}
	return true
}

// keyStore says whether content is PKCS #12 (RFC 7292, section 4): a sequence that begins with version 3. A store of
// trusted certificates looks the same, so that the file's name decides.
func keyStore(content []byte) bool {
	inner, ok := sequence(content)
	return ok && bytes.HasPrefix(inner, []byte{2, 1, 3})
}
