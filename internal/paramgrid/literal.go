package paramgrid

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// PlainText writes text so that a job reads it as text, also where it looks like a number: as Python's literal_eval
// would give something for it, it is put into quotes.
func PlainText(text string) string {
	if !strings.ContainsFunc(text, isControl) && isLiteral(text) {
		return quoted(text)
	}
	return text
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// quoted is Python's repr of a text.
func quoted(text string) string {
	quote := '\''
	if strings.Contains(text, "'") && !strings.Contains(text, `"`) {
		quote = '"'
	}
	var b strings.Builder
	b.WriteRune(quote)
	for _, r := range text {
		switch {
		case r == quote || r == '\\':
			b.WriteString(`\` + string(r))
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r <= 0xff:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	b.WriteRune(quote)
	return b.String()
}

// form is what a part of a literal is, as far as that says where it may stand.
type form int

const (
	wrong      form = iota // no literal
	realNumber             // may have a sign, or an imaginary number behind it
	imaginary              // may have a sign, or stand behind a real number
	signedReal             // may have an imaginary number behind it
	simple                 // may be a key
	compound               // a list, dict or set: no key
)

// reader reads a Python literal of one line.
type reader struct {
	rest  string
	depth int
}

// deepest is how deep Python lets brackets nest.
const deepest = 199

func isLiteral(text string) bool {
	r := &reader{rest: text}
	if r.list("", false) == wrong {
		return false
	}
	r.space()
	return r.rest == "" || r.rest[0] == '#'
}

func (r *reader) space() { r.rest = strings.TrimLeft(r.rest, " ") }

// take takes token if it is next.
func (r *reader) take(token string) bool {
	r.space()
	var found bool
	r.rest, found = strings.CutPrefix(r.rest, token)
	return found
}

// list reads elements up to the end, which is taken; without one, as far as there are any. One alone is itself, unless
// it is to be a list.
func (r *reader) list(end string, pairs bool) form {
	all, n, comma := simple, 0, true
	for ; comma; n++ {
		r.space()
		if n > 0 && (end == "" && (r.rest == "" || r.rest[0] == '#') || end != "" && strings.HasPrefix(r.rest, end)) {
			break
		}
		f := r.element()
		if f == wrong {
			return wrong
		}
		if pairs && (f == compound || !r.take(":") || r.element() == wrong) {
			return wrong
		}
		comma = r.take(",")
		if n == 0 && !comma {
			all = f
		} else if f == compound {
			all = compound
		}
	}
	if end != "" && !r.take(end) {
		return wrong
	}
	return all
}

// element reads an atom with a sign, or a sum that is a complex number.
func (r *reader) element() form {
	f := wrong
	if r.take("-") || r.take("+") {
		if f = r.atom(); f != realNumber && f != imaginary {
			return wrong
		}
		f = map[form]form{realNumber: signedReal, imaginary: simple}[f]
	} else {
		f = r.atom()
	}
	if r.take("-") || r.take("+") {
		if f != realNumber && f != signedReal || r.atom() != imaginary {
			return wrong
		}
		return simple
	}
	return f
}

func (r *reader) atom() form {
	r.space()
	if r.depth++; r.depth > deepest {
		return wrong
	}
	defer func() { r.depth-- }()
	switch {
	case r.take("("):
		if r.take(")") {
			return simple
		}
		return r.list(")", false)
	case r.take("["):
		if r.take("]") || r.list("]", false) != wrong {
			return compound
		}
		return wrong
	case r.take("{"):
		return r.braces()
	case r.take("..."):
		return simple
	}
	if token := name.FindString(r.rest); token != "" {
		return r.word(token)
	}
	if token := aNumber.FindString(r.rest); token != "" {
		return r.number(token)
	}
	return r.strings()
}

// braces read what is behind an opening brace: a dict or a set.
func (r *reader) braces() form {
	if r.take("}") {
		return compound
	}
	set := *r
	if f := set.list("}", false); f != wrong && f != compound {
		*r = set
		return compound
	}
	if r.list("}", true) == wrong {
		return wrong
	}
	return compound
}

// Tokens. A name is none when a quote is behind it: then it says of what kind a string is.
var (
	name    = regexp.MustCompile(`\A(True|False|None|set)\b`)
	aNumber = regexp.MustCompile(`\A(?:0[xX](?:_?[0-9a-fA-F])+|0[oO](?:_?[0-7])+|0[bB](?:_?[01])+|` +
		`(?:(?:[0-9](?:_?[0-9])*)?\.[0-9](?:_?[0-9])*|[0-9](?:_?[0-9])*\.?)(?:[eE][+-]?[0-9](?:_?[0-9])*)?[jJ]?)`)
	leadingZero = regexp.MustCompile(`\A0[0_]*[1-9][0-9_]*\z`)
	aString     = regexp.MustCompile(`\A(?i:(r?b?|br|u))("""|'''|"|')`)
	anEscape    = regexp.MustCompile(`\A\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U(?:000[0-9a-fA-F]|0010)[0-9a-fA-F]{4}|N\{[A-Za-z0-9 -]+\}|[^xuUN])`)
	aByteEscape = regexp.MustCompile(`\A\\(?:x[0-9a-fA-F]{2}|[^x])`)
)

func (r *reader) word(token string) form {
	r.rest = r.rest[len(token):]
	switch {
	case strings.HasPrefix(r.rest, "'"), strings.HasPrefix(r.rest, `"`), r.rest != "" && r.rest[0] >= 0x80:
		return wrong
	case token != "set":
		return simple
	case r.take("(") && r.take(")"):
		return compound
	}
	return wrong
}

func (r *reader) number(token string) form {
	r.rest = r.rest[len(token):]
	if r.rest != "" && (r.rest[0] == '_' || r.rest[0] >= 0x80 || unicode.IsLetter(rune(r.rest[0])) || unicode.IsDigit(rune(r.rest[0]))) || leadingZero.MatchString(token) {
		return wrong
	}
	if token[len(token)-1]|0x20 == 'j' {
		return imaginary
	}
	return realNumber
}

// strings read strings that stand side by side: they are one.
func (r *reader) strings() form {
	kind := ""
	for n := 0; ; n++ {
		r.space()
		m := aString.FindStringSubmatch(r.rest)
		if m == nil {
			if n == 0 {
				return wrong
			}
			return simple
		}
		prefix := strings.ToLower(m[1])
		is := map[bool]string{true: "bytes", false: "text"}[strings.Contains(prefix, "b")]
		if n > 0 && is != kind {
			return wrong
		}
		kind, r.rest = is, r.rest[len(m[0]):]
		if !r.quote(m[2], kind == "bytes", strings.Contains(prefix, "r")) {
			return wrong
		}
	}
}

// quote reads up to the quote that ends a string.
func (r *reader) quote(end string, bytes, raw bool) bool {
	escape := anEscape
	if bytes {
		escape = aByteEscape
	}
	for r.rest != "" {
		switch {
		case strings.HasPrefix(r.rest, end):
			r.rest = r.rest[len(end):]
			return true
		case bytes && r.rest[0] >= 0x80:
			return false
		case r.rest[0] != '\\':
			r.rest = r.rest[1:]
		case raw && len(r.rest) > 1:
			r.rest = r.rest[2:]
		default:
			m := escape.FindString(r.rest)
			if m == "" || bytes && m[len(m)-1] >= 0x80 {
				return false
			}
			r.rest = r.rest[len(m):]
		}
	}
	return false
}
