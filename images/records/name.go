package records

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"slipway/internal/errs"
)

const (
	maxNote  = 1000
	MaxOwner = 255
)

var (
	namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)
	digits      = regexp.MustCompile(`^[0-9a-f]{6,}$`)
	tagPattern  = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)
)

// Validate says whether an owner may call an environment so.
func (b Label) Validate() error {
	switch {
	case b.Name != "" && !namePattern.MatchString(b.Name):
		return errs.Bad("name", beginning(b.Name), "use 1 to 64 of a-z 0-9 . _ - and begin with a letter or digit")
	case b.Name == "sha256":
		return errs.Bad("name", b.Name, "choose another: digests begin so")
	case digits.MatchString(b.Name):
		return errs.Bad(
			"name", beginning(b.Name), "choose one that is not of the digits 0-9 and a-f alone: digests are called so",
		)
	case b.Tag != "" && b.Name == "":
		return errs.Bad("tag", beginning(b.Tag), "give a name with it, or leave the tag out")
	case b.Tag != "" && !tagPattern.MatchString(b.Tag):
		return errs.Bad(
			"tag", beginning(b.Tag), "use 1 to 128 of A-Z a-z 0-9 . _ - and begin with a letter, digit or _",
		)
	case utf8.RuneCountInString(b.Note) > maxNote:
		return errs.Bad("note", beginning(b.Note), fmt.Sprintf("shorten it to %d characters", maxNote))
	case !printable(b.Note):
		return errs.Bad("note", beginning(b.Note), "use valid UTF-8 without control characters")
	}
	return nil
}

// beginning returns of what somebody wrote as much as an error needs.
func beginning(s string) string {
	if r := []rune(s); len(r) > 40 {
		return string(r[:40]) + "..."
	}
	return s
}

func Usable(s string) bool {
	return s != "" && utf8.ValidString(s) && utf8.RuneCountInString(s) <= MaxOwner
}

func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool {
		return unicode.IsControl(r) && r != '\n' && r != '\t'
	})
}
