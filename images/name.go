package images

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"slipway/images/secrets"
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
	}
	if err := (label{Name: r.Name, Tag: r.Tag, Note: r.Note}).validate(); err != nil {
		return err
	}
	if err := r.Use.validate(); err != nil {
		return err
	}
	if err := secrets.CheckAllow(r.Allow); err != nil {
		return err
	}
	return r.Source.validate()
}

// validate says whether an owner may call an environment so.
func (b label) validate() error {
	switch {
	case b.Name != "" && !namePattern.MatchString(b.Name):
		return errs.Bad("name", b.Name, "use 1 to 64 of a-z 0-9 . _ - and begin with a letter or digit")
	case b.Name == "sha256":
		return errs.Bad("name", b.Name, "choose another: digests begin so")
	case b.Tag != "" && b.Name == "":
		return errs.Bad("tag", b.Tag, "give a name with it, or leave the tag out")
	case b.Tag != "" && !tagPattern.MatchString(b.Tag):
		return errs.Bad("tag", b.Tag, "use 1 to 128 of A-Z a-z 0-9 . _ - and begin with a letter, digit or _")
	case utf8.RuneCountInString(b.Note) > maxNote:
		return errs.Bad("note", string([]rune(b.Note)[:40])+"...", fmt.Sprintf("shorten it to %d characters", maxNote))
	case !printable(b.Note):
		return errs.Bad("note", b.Note, "use valid UTF-8 without control characters")
	}
	return nil
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
