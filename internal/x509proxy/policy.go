package x509proxy

import (
	"bufio"
	"bytes"
	"strings"
)

// policy says which names an authority may sign, as the file HASH.signing_policy has it.
type policy struct {
	authority string
	subjects  []string // with * for any text
}

// readPolicies reads a file of them. A line that is not understood permits nothing.
func readPolicies(text []byte) []policy {
	var all []policy
	signs := false
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		word, rest, _ := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		if tab := strings.IndexByte(word, '\t'); tab >= 0 {
			word, rest = word[:tab], word[tab+1:]+" "+rest
		}
		switch rest = strings.TrimSpace(rest); {
		case word == "access_id_CA":
			all = append(all, policy{authority: authorityIn(rest)})
			signs = false
		case len(all) == 0:
		case word == "pos_rights":
			signs = strings.HasSuffix(rest, "CA:sign")
		case word == "cond_subjects" && signs:
			last := &all[len(all)-1]
			last.subjects = append(last.subjects, quoted(rest)...)
		}
	}
	return all
}

// authorityIn returns the name in: X509 '/C=DE/O=GermanGrid/CN=GridKa-CA'.
func authorityIn(text string) string {
	_, name, _ := strings.Cut(text, "'")
	name, _, _ = strings.Cut(name, "'")
	return name
}

// quoted returns the names in: globus '"/C=DE/*" "/O=Grid/*"'. One alone may stand without the inner quotes.
func quoted(text string) []string {
	inner := authorityIn(text)
	if !strings.Contains(inner, `"`) {
		return strings.Fields(inner)
	}
	var all []string
	for i, part := range strings.Split(inner, `"`) {
		if i%2 == 1 {
			all = append(all, part)
		}
	}
	return all
}

// permits reports whether the policy lets its authority sign a name.
func (p policy) permits(name string) bool {
	for _, pattern := range p.subjects {
		if matches(modern(pattern), modern(name)) {
			return true
		}
	}
	return false
}

// matches compares with a pattern in which * stands for any text and ? for one character.
func matches(pattern, name string) bool {
	star, mark := -1, 0
	p, n := 0, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, n
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == name[n]):
			p, n = p+1, n+1
		case star >= 0:
			mark++
			p, n = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// hashed returns what a file of the directory is by its name: "" for what is of no use here.
func hashed(name string) string {
	stem, end, ok := strings.Cut(name, ".")
	if !ok || len(stem) != 8 || strings.Trim(stem, "0123456789abcdef") != "" {
		return ""
	}
	switch number := strings.TrimPrefix(end, "r"); {
	case end == "signing_policy":
		return end
	case number == "" || strings.Trim(number, "0123456789") != "":
		return ""
	case number != end:
		return "list"
	default:
		return "authority"
	}
}
