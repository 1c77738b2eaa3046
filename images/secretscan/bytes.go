package secretscan

import (
	"bytes"
	"math/bits"
)

func letter(b byte) bool { return b|0x20 >= 'a' && b|0x20 <= 'z' }

func digit(b byte) bool { return b >= '0' && b <= '9' }

func alnum(b byte) bool { return letter(b) || digit(b) }

// wordByte says whether b can stand in an identifier: a token has none before and behind it.
func wordByte(b byte) bool { return alnum(b) || b == '_' }

// urlByte is of base64url's alphabet (RFC 4648, section 5), base64Byte of either one.
func urlByte(b byte) bool { return wordByte(b) || b == '-' }

func base64Byte(b byte) bool { return urlByte(b) || b == '+' || b == '/' }

func secretKeyByte(b byte) bool { return alnum(b) || b == '+' || b == '/' }

func hexByte(b byte) bool { return digit(b) || b >= 'a' && b <= 'f' }

// run returns what of class begins at a place, and whether it is told apart from what stands behind it.
func run(content []byte, at int, class func(byte) bool) (text []byte, ended bool) {
	end := at
	for end < len(content) && class(content[end]) {
		end++
	}
	return content[at:end], end == len(content) || !wordByte(content[end])
}

// begins says whether a word can begin at a place. A JSON string holds a line's end as \n: its n is no part of a word.
func begins(content []byte, at int) bool {
	if at == 0 || !wordByte(content[at-1]) {
		return true
	}
	return at >= 2 && content[at-2] == '\\' && (content[at-1] == 'n' || content[at-1] == 't' || content[at-1] == 'r')
}

// mixed says whether s can be random: placeholders (xxxx, 0123456789abcdef, YOUR_TOKEN_HERE) lack capitals, small
// letters or digits, or repeat few.
func mixed(s []byte) bool {
	var upper, lower, digits bool
	for _, b := range s {
		upper = upper || b >= 'A' && b <= 'Z'
		lower = lower || b >= 'a' && b <= 'z'
		digits = digits || digit(b)
	}
	return upper && lower && digits && distinct(s) >= 10
}

// distinct counts the different bytes of s, which must be ASCII.
func distinct(s []byte) int {
	var low, high uint64
	for _, b := range s {
		if b < 64 {
			low |= 1 << b
		} else {
			high |= 1 << (b & 63)
		}
	}
	return bits.OnesCount64(low) + bits.OnesCount64(high)
}

// placeholder says whether the value of a setting stands for one that is to be filled in, or is taken from elsewhere.
func placeholder(value []byte) bool {
	v := bytes.ToLower(bytes.TrimSpace(value))
	if len(v) < 3 || bytes.ContainsAny(v[:1], "$<{%*@") || distinct(v) < 3 {
		return true
	}
	for _, word := range []string{"...", "xxxx", "****", "example", "changeme", "change_me", "change-me", "placeholder", "your_", "your-", "<"} {
		if bytes.Contains(v, []byte(word)) {
			return true
		}
	}
	switch string(v) {
	case "password", "passwd", "secret", "token", "none", "null", "pass", "test", "prompt", "ask", "true", "false":
		return true
	}
	return false
}

// line returns the number of the line of a place; 0 in a file that is not text.
func line(content []byte, at int) int {
	if at < 0 || bytes.IndexByte(content[:min(len(content), 8192)], 0) >= 0 {
		return 0
	}
	return 1 + bytes.Count(content[:at], []byte("\n"))
}
