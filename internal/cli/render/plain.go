package render

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"
)

// What others have written (names, reasons, the output of jobs) may hold sequences by which a terminal moves its
// cursor, changes its title or its colors, or answers as if somebody had typed. None of it may reach an administrator's
// terminal.

// acts reports whether a terminal acts on a rune, or shows what follows in another order.
func acts(r rune) bool {
	bidi := r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0x200e || r == 0x200f || r == 0x061c
	return unicode.IsControl(r) || bidi
}

// Printable keeps names that people chose, which are of one line, from a terminal.
func Printable(s string) string {
	if s == "" {
		return "-"
	}
	return strings.Map(func(r rune) rune {
		if acts(r) {
			return '\uFFFD'
		}
		return r
	}, s)
}

// Paragraphs keeps a text of several lines from a terminal.
func Paragraphs(s string) string {
	var b strings.Builder
	p := &plainWriter{w: &b}
	_, _ = io.WriteString(p, s)
	p.flush()
	return b.String()
}

// ForTerminal returns where the output of others is written to: as it is to files and pipes, and where raw is asked
// for; without what a terminal acts on to a terminal. done must be called at the end.
func ForTerminal(w io.Writer, raw bool) (to io.Writer, done func()) {
	if f, ok := w.(*os.File); !raw && ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			p := &plainWriter{w: w}
			return p, p.flush
		}
	}
	return w, func() {}
}

// plainWriter writes text without escape sequences; other controls than line ends, tabs and the returns of progress
// bars are replaced. It takes pieces of any size.
type plainWriter struct {
	w     io.Writer
	state escape
	rest  []byte // the beginning of a rune
}

// escape is where in an escape sequence a text is (ECMA-48, section 5.4 and 5.6).
type escape int

const (
	noEscape     escape = iota
	behindEscape        // behind ESC
	inSequence          // of a control sequence: CSI
	inString            // of a control string: OSC, DCS, SOS, PM, APC
	endString           // behind an ESC in a string
)

// Write writes what is fit to be shown.
func (p *plainWriter) Write(b []byte) (int, error) {
	n := len(b)
	b = append(p.rest, b...)
	var out bytes.Buffer
	for len(b) > 0 && utf8.FullRune(b) {
		r, size := utf8.DecodeRune(b)
		b = b[size:]
		if r, shown := p.next(r); shown {
			out.WriteRune(r)
		}
	}
	p.rest = bytes.Clone(b)
	if _, err := p.w.Write(out.Bytes()); err != nil {
		return 0, err
	}
	return n, nil
}

// next takes one rune, and returns what is shown for it.
func (p *plainWriter) next(r rune) (shown rune, ok bool) {
	switch {
	case p.state == endString && r == '\\', r == 0x18, r == 0x1a: // ST; CAN and SUB end everything
		p.state = noEscape
		return 0, false
	case r == 0x1b && p.state == inString:
		p.state = endString
	case r == 0x1b:
		p.state = behindEscape
	case p.state == behindEscape, p.state == endString:
		p.state = afterEscape(r)
	case p.state == inSequence:
		if r >= '@' && r <= '~' {
			p.state = noEscape
		}
	case p.state == inString:
		if r == 0x07 || r == 0x9c {
			p.state = noEscape
		}
	case r == 0x9b:
		p.state = inSequence
	case r == 0x90 || r == 0x98 || r >= 0x9d && r <= 0x9f:
		p.state = inString
	case r == '\n' || r == '\t' || r == '\r' || !acts(r):
		return r, true
	default:
		return utf8.RuneError, true
	}
	if p.state != noEscape && r == '\n' { // a sequence that does not end must not swallow what follows
		p.state = noEscape
		return r, true
	}
	return 0, false
}

// afterEscape is what a rune behind ESC begins.
func afterEscape(r rune) escape {
	switch {
	case r == '[':
		return inSequence
	case strings.ContainsRune("]PX^_", r):
		return inString
	case r >= ' ' && r <= '/': // one more rune belongs to it
		return behindEscape
	}
	return noEscape
}

// flush writes what was left of a rune that did not come to its end.
func (p *plainWriter) flush() {
	if len(p.rest) > 0 && p.state == noEscape {
		_, _ = fmt.Fprint(p.w, string(utf8.RuneError))
	}
	p.rest = nil
}

// asciiControls writes the controls of a JSON text that its encoder leaves as they are.
func asciiControls(text []byte) []byte {
	var b bytes.Buffer
	for _, r := range string(text) {
		if acts(r) && r != '\n' {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.Bytes()
}
