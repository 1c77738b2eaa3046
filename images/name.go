package images

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"slipway/internal/errs"
)

const (
	maxNote  = 1000
	maxOwner = 255
	maxPlain = 180 // longest escaped name kept readable; a file name holds 255 bytes
)

var (
	namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)
	tagPattern  = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)
)

func (r Request) validate() error {
	switch {
	case !usable(r.Owner):
		return errs.Bad("owner", r.Owner, fmt.Sprintf("give 1 to %d characters of valid UTF-8", maxOwner))
	case !usable(r.Key):
		return errs.Bad("key", r.Key, fmt.Sprintf("give 1 to %d characters of valid UTF-8", maxOwner))
	case r.Name != "" && !namePattern.MatchString(r.Name):
		return errs.Bad("name", r.Name, "use 1 to 64 of a-z 0-9 . _ - and begin with a letter or digit")
	case r.Name == "sha256":
		return errs.Bad("name", r.Name, "choose another: digests begin so")
	case r.Tag != "" && r.Name == "":
		return errs.Bad("tag", r.Tag, "give a name with it, or leave the tag out")
	case r.Tag != "" && !tagPattern.MatchString(r.Tag):
		return errs.Bad("tag", r.Tag, "use 1 to 128 of A-Z a-z 0-9 . _ - and begin with a letter, digit or _")
	case utf8.RuneCountInString(r.Note) > maxNote:
		return errs.Bad("note", string([]rune(r.Note)[:40])+"...", fmt.Sprintf("shorten it to %d characters", maxNote))
	case !printable(r.Note):
		return errs.Bad("note", r.Note, "use valid UTF-8 without control characters")
	}
	return r.Source.validate()
}

func usable(s string) bool {
	return s != "" && utf8.ValidString(s) && utf8.RuneCountInString(s) <= maxOwner
}

func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool {
		return unicode.IsControl(r) && r != '\n' && r != '\t'
	})
}

// escape turns any name into a file name, different names into different ones, also where the file system folds case:
// only lower-case letters, digits, - and _ stay, every other byte becomes =xx. What grows too long becomes ~ and a hash;
// no readable form begins with ~.
func escape(name string) string {
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "=%02x", c)
		}
	}
	if b.Len() > maxPlain {
		sum := sha256.Sum256([]byte(name))
		return "~" + hex.EncodeToString(sum[:])
	}
	return b.String()
}

const digestPrefix = "sha256:"

// digestHex gives the hexadecimal part of a digest; ok is false for anything but a whole sha256 digest.
func digestHex(digest string) (hexPart string, ok bool) {
	h, found := strings.CutPrefix(digest, digestPrefix)
	return h, found && len(h) == sha256.Size*2 && isHex(h)
}

func isHex(s string) bool {
	return s != "" && strings.Trim(s, "0123456789abcdef") == ""
}
