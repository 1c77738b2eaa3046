package homes

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"slipway/internal/errs"
)

// Template is a path in which words stand for a user, such as /nfs/home/{initial}/{name}.
type Template struct {
	root string   // what stands before the first word: it is the site's, and links in it are followed
	rest []string // the elements below it
}

// Who fills a Template.
type Who struct {
	Name     string // as the Hub has it
	Realm    string
	Login    string // on this host
	UID, GID int
}

// words are what may stand in a template, and what they stand for.
func (w Who) words() map[string]string {
	return map[string]string{
		"name": w.Name, "login": w.Login, "realm": w.Realm, "uid": fmt.Sprint(w.UID),
		"initial": strings.ToLower(w.Name[:min(1, len(w.Name))]),
	}
}

// allWords lists what may stand in a template.
func allWords() []string {
	var all []string
	for _, word := range slices.Sorted(maps.Keys(Who{}.words())) {
		all = append(all, "{"+word+"}")
	}
	return all
}

var word = regexp.MustCompile(`\{[a-z]*\}`)

// Parse reads a template; field is what it is called in errors.
func Parse(field, text string) (Template, error) {
	remedy := "an absolute path without //, . and .., in which may stand " + strings.Join(allWords(), ", ")
	if !path.IsAbs(text) || path.Clean(text) != text || text == "/" || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return Template{}, errs.Bad(field, text, remedy)
	}
	known := Who{}.words()
	for _, w := range word.FindAllString(text, -1) {
		if _, ok := known[strings.Trim(w, "{}")]; !ok {
			return Template{}, errs.Bad(field, text, remedy)
		}
	}
	if strings.ContainsAny(word.ReplaceAllString(text, ""), "{}") {
		return Template{}, errs.Bad(field, text, remedy)
	}
	elements := strings.Split(text[1:], "/")
	first := slices.IndexFunc(elements, func(e string) bool { return word.MatchString(e) })
	if first < 0 {
		return Template{root: text}, nil
	}
	return Template{root: "/" + strings.Join(elements[:first], "/"), rest: elements[first:]}, nil
}

// Below is the path of names below a directory of the site's.
func Below(root string, names ...string) Template { return Template{root, names} }

// Personal reports whether the path is each user's own, among the users of one realm.
func (t Template) Personal() bool { return t.has("{uid}") || t.has("{name}") || t.has("{login}") }

// Apart reports whether users of several realms have paths of their own, though they may have one name and one login.
func (t Template) Apart() bool { return t.has("{uid}") || t.has("{realm}") }

func (t Template) has(word string) bool {
	return slices.ContainsFunc(t.rest, func(element string) bool { return strings.Contains(element, word) })
}

// Root is the directory below which all paths lie, or the one path that it is.
func (t Template) Root() string { return t.root }

// plain is what a word may stand for: a name that is one element of a path, whatever stands before and behind it.
var plain = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.@=+-]{0,127}$`)

// fill returns the elements below the root for a user.
func (t Template) fill(w Who) ([]string, error) {
	var bad error
	values, out := w.words(), []string(nil)
	for _, element := range t.rest {
		filled := word.ReplaceAllStringFunc(element, func(found string) string {
			value := values[strings.Trim(found, "{}")]
			if !plain.MatchString(value) {
				bad = errs.New(errs.Invalid, "no directory can be named by %s %q: it may hold letters, digits and _ . @ = + - alone, and begins with none of the last five",
					strings.Trim(found, "{}"), value).With(
					"the administrator names the directories by {uid} or {login}",
				)
			}
			return value
		})
		out = append(out, filled)
	}
	return out, bad
}
