package classad

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Expr is a ClassAd expression that has been read. Its dynamic type is one of those below.
type Expr any

type (
	literal struct{ v Value }
	// attribute is a name, alone or with a scope: "my", "target", or empty.
	attribute struct{ scope, name string }
	// member is an attribute of what an expression gives.
	member struct {
		of   Expr
		name string
	}
	unary struct {
		op string
		x  Expr
	}
	binary struct {
		op   string
		x, y Expr
	}
	ternary struct{ cond, yes, no Expr } // without yes: cond unless that is undefined
	call    struct {
		name string
		args []Expr
	}
	listOf struct{ items []Expr }
	adOf   struct{ ad *Ad }
)

// What an expression may have. Ads come from machines that somebody else runs.
const (
	longestExpr = 64 << 10
	deepestExpr = 64
)

// Literal is the expression that is always a value.
func Literal(v Value) Expr { return literal{v} }

var errExpr = errors.New("not an expression that can be read")

// Parse reads a ClassAd expression.
func Parse(s string) (Expr, error) {
	if len(s) > longestExpr || !utf8.ValidString(s) {
		return nil, fmt.Errorf("%w: too long, or not UTF-8", errExpr)
	}
	p := parser{rest: s}
	p.next()
	e := p.ternary()
	if p.err == nil && p.token.kind != endToken {
		p.fail("%q follows it", p.token.text)
	}
	return e, p.err
}

type tokenKind int

const (
	endToken tokenKind = iota
	wordToken
	numberToken
	textToken
	signToken
)

type token struct {
	kind tokenKind
	text string // a sign, a word, a number as written, or a text without its quotes
}

type parser struct {
	rest  string
	token token
	depth int
	err   error
}

func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("%w: "+format, append([]any{errExpr}, args...)...)
	}
	p.rest, p.token = "", token{}
}

// signs are the operators, those first that begin with others.
var signs = []string{
	"=?=", "=!=", "==", "!=", "<=", ">=", "&&", "||", "?:", "<", ">", "!", "?", ":", "+", "-", "*", "/", "%", "(", ")",
	"{", "}", "[", "]", ",", ";", ".", "=",
}

// next reads the next token.
func (p *parser) next() {
	p.rest = strings.TrimLeft(p.rest, " \t\r\n")
	if p.rest == "" {
		p.token = token{}
		return
	}
	switch c := p.rest[0]; {
	case isLetter(c):
		p.cut(wordToken, span(p.rest, func(c byte) bool { return isLetter(c) || isDigit(c) }))
	case isDigit(c) || c == '.' && len(p.rest) > 1 && isDigit(p.rest[1]):
		p.cut(numberToken, numberLength(p.rest))
	case c == '"' || c == '\'':
		p.quoted(c)
	default:
		for _, s := range signs {
			if strings.HasPrefix(p.rest, s) {
				p.cut(signToken, len(s))
				return
			}
		}
		p.fail("%q", c)
	}
}

func (p *parser) cut(kind tokenKind, n int) { p.token, p.rest = token{kind, p.rest[:n]}, p.rest[n:] }

// quoted reads a text, or a name in single quotes.
func (p *parser) quoted(quote byte) {
	var b strings.Builder
	for i := 1; i < len(p.rest); i++ {
		switch c := p.rest[i]; {
		case c == quote:
			kind := textToken
			if quote == '\'' {
				kind = wordToken
			}
			p.token, p.rest = token{kind, b.String()}, p.rest[i+1:]
			return
		case c == '\\' && i+1 < len(p.rest):
			i++
			b.WriteByte(unescaped(p.rest[i]))
		default:
			b.WriteByte(c)
		}
	}
	p.fail("a quote is not closed")
}

func unescaped(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 't':
		return '\t'
	default:
		return c
	}
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }

func span(s string, is func(byte) bool) int {
	n := 0
	for n < len(s) && is(s[n]) {
		n++
	}
	return n
}

func numberLength(s string) int {
	n := span(s, isDigit)
	if n < len(s) && s[n] == '.' {
		n += 1 + span(s[n+1:], isDigit)
	}
	if n < len(s) && s[n]|0x20 == 'e' {
		m := n + 1
		if m < len(s) && (s[m] == '+' || s[m] == '-') {
			m++
		}
		if digits := span(s[m:], isDigit); digits > 0 {
			n = m + digits
		}
	}
	return n
}

// is reports whether the token is this sign, and goes on if so.
func (p *parser) is(sign string) bool {
	if p.token.kind != signToken || p.token.text != sign {
		return false
	}
	p.next()
	return true
}

func (p *parser) want(sign string) {
	if p.err == nil && !p.is(sign) {
		p.fail("%s is missing before %q", sign, p.token.text)
	}
}

// ternary reads a whole expression.
func (p *parser) ternary() Expr {
	if p.depth++; p.depth > deepestExpr {
		p.fail("too deep")
	}
	defer func() { p.depth-- }()
	cond := p.binary(0)
	switch {
	case p.is("?:"):
		return ternary{cond: cond, no: p.ternary()}
	case p.is("?"):
		yes := p.ternary()
		p.want(":")
		return ternary{cond, yes, p.ternary()}
	default:
		return cond
	}
}

// levels are the binary operators, the loosest first.
var levels = [][]string{
	{"||"}, {"&&"}, {"==", "!=", "=?=", "=!=", "is", "isnt"}, {"<", "<=", ">", ">="}, {"+", "-"}, {"*", "/", "%"},
}

func (p *parser) binary(level int) Expr {
	if level == len(levels) {
		return p.unary()
	}
	x := p.binary(level + 1)
	for p.err == nil {
		op := p.operator(levels[level])
		if op == "" {
			break
		}
		x = binary{op, x, p.binary(level + 1)}
	}
	return x
}

func (p *parser) operator(of []string) string {
	for _, op := range of {
		if p.token.kind != endToken && p.token.kind != textToken && strings.EqualFold(p.token.text, op) {
			p.next()
			return strings.NewReplacer("isnt", "=!=", "is", "=?=").Replace(op)
		}
	}
	return ""
}

func (p *parser) unary() Expr {
	if p.depth++; p.depth > deepestExpr {
		p.fail("too deep")
	}
	defer func() { p.depth-- }()
	for _, op := range []string{"!", "-", "+"} {
		if p.is(op) {
			return unary{op, p.unary()}
		}
	}
	x := p.primary()
	for p.err == nil && p.is(".") {
		x = member{x, strings.ToLower(p.word())}
	}
	return x
}

func (p *parser) word() string {
	text := p.token.text
	if p.token.kind != wordToken {
		p.fail("a name is missing before %q", text)
		return ""
	}
	p.next()
	return text
}

func (p *parser) primary() Expr {
	switch t := p.token; t.kind {
	case textToken:
		p.next()
		return literal{t.text}
	case numberToken:
		p.next()
		return p.number(t.text)
	case wordToken:
		p.next()
		return p.name(strings.ToLower(t.text))
	}
	switch {
	case p.is("("):
		x := p.ternary()
		p.want(")")
		return x
	case p.is("{"):
		return listOf{p.list("}")}
	case p.is("["):
		return p.nested()
	}
	p.fail("something is missing before %q", p.token.text)
	return nil
}

func (p *parser) number(text string) Expr {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return literal{n}
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		p.fail("the number %s", text)
	}
	return literal{f}
}

// name reads what begins with a word: a constant, a call, or an attribute.
func (p *parser) name(word string) Expr {
	switch word {
	case "true", "false":
		return literal{word == "true"}
	case "undefined":
		return literal{}
	case "error":
		return literal{failed{}}
	case "my", "target":
		if p.is(".") {
			return attribute{word, strings.ToLower(p.word())}
		}
	}
	if p.is("(") {
		return call{word, p.list(")")}
	}
	return attribute{"", word}
}

// list reads expressions up to a closing sign.
func (p *parser) list(end string) []Expr {
	var all []Expr
	for p.err == nil && !p.is(end) {
		if len(all) > 0 {
			p.want(",")
		}
		all = append(all, p.ternary())
	}
	return all
}

// nested reads an ad.
func (p *parser) nested() Expr {
	a := New()
	for p.err == nil && !p.is("]") {
		name := strings.ToLower(p.word())
		p.want("=")
		a.attributes[name] = p.ternary()
		if p.err == nil && !p.is(";") {
			p.want("]")
			break
		}
	}
	return adOf{a}
}
