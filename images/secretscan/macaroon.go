package secretscan

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"strconv"
	"time"
)

// decode64 decodes base64 of either alphabet, without padding.
func decode64(text []byte) ([]byte, error) {
	return base64.RawURLEncoding.DecodeString(string(bytes.Map(func(r rune) rune {
		switch r {
		case '+':
			return '-'
		case '/':
			return '_'
		}
		return r
	}, text)))
}

// checkMacaroon1 checks a macaroon of libmacaroons' format 1, which dCache gives out: packets of four hex digits (their
// length), a name, a space, a value and a line feed.
func checkMacaroon1(v view, at int) (hit, bool) {
	begin := at - 8
	if begin < 0 || !begins(v.content, begin) {
		return hit{}, false
	}
	text, _ := run(v.content[:min(len(v.content), begin+maxToken)], begin, base64Byte)
	raw, err := decode64(text)
	return hit{Macaroon, begin}, err == nil && macaroon1(raw, v.now)
}

// macaroon1 says whether raw is a whole macaroon that is not past its time.
func macaroon1(raw []byte, now time.Time) bool {
	for first := true; ; first = false {
		name, value, rest, ok := packet(raw)
		switch {
		case !ok || first != (name == "location"):
			return false
		case name == "signature":
			return len(value) == 32
		case name == "cid" && caveatEnded(value, now):
			return false
		}
		raw = rest
	}
}

func packet(raw []byte) (name string, value, rest []byte, ok bool) {
	if len(raw) < 6 {
		return "", nil, nil, false
	}
	size, err := strconv.ParseUint(string(raw[:4]), 16, 16)
	if err != nil || size < 6 || int(size) > len(raw) || raw[size-1] != '\n' {
		return "", nil, nil, false
	}
	key, value, ok := bytes.Cut(raw[4:size-1], []byte(" "))
	return string(key), value, raw[size:], ok
}

// caveatEnded reads dCache's caveat before:TIME.
func caveatEnded(caveat []byte, now time.Time) bool {
	text, ok := bytes.CutPrefix(caveat, []byte("before:"))
	t, err := time.Parse(time.RFC3339, string(bytes.TrimSpace(text)))
	return ok && err == nil && t.Before(now)
}

// checkMacaroon2 checks one of format 2 whose location is a URL: it begins with version 2, field 1 and its length.
func checkMacaroon2(v view, at int) (hit, bool) {
	begin := at - 4
	if begin < 0 || !bytes.HasPrefix(v.content[begin:], []byte("AgE")) || !begins(v.content, begin) {
		return hit{}, false
	}
	return hit{Macaroon, begin}, macaroon2At(v.content, begin)
}

// checkPyPI checks a token of PyPI: the macaroon behind its prefix.
func checkPyPI(v view, at int) (hit, bool) {
	return hit{PyPI, at}, begins(v.content, at) && macaroon2At(v.content, at+len("pypi-"))
}

func macaroon2At(content []byte, begin int) bool {
	text, _ := run(content[:min(len(content), begin+maxToken)], begin, base64Byte)
	raw, err := decode64(text)
	return err == nil && macaroon2(raw)
}

// macaroon2 reads libmacaroons' format 2: a version byte, then sections of fields (number, length, data) that a zero
// ends. The first section has the location and the identifier, the caveats' follow, an empty one ends them, and field 6
// is the signature.
func macaroon2(raw []byte) bool {
	if len(raw) < 40 || raw[0] != 2 {
		return false
	}
	raw = raw[1:]
	for sections := 0; ; sections++ {
		fields := 0
		for len(raw) > 0 && raw[0] != 0 {
			number, data, rest, ok := field(raw)
			if !ok {
				return false
			}
			if number == 6 {
				return sections > 0 && fields == 0 && len(data) == 32
			}
			raw, fields = rest, fields+1
		}
		if len(raw) == 0 || fields == 0 && sections == 0 {
			return false
		}
		raw = raw[1:]
	}
}

func field(raw []byte) (number uint64, data, rest []byte, ok bool) {
	number, n := binary.Uvarint(raw)
	if n <= 0 {
		return 0, nil, nil, false
	}
	size, m := binary.Uvarint(raw[n:])
	if m <= 0 || size > uint64(len(raw)-n-m) {
		return 0, nil, nil, false
	}
	raw = raw[n+m:]
	return number, raw[:size], raw[size:], true
}
