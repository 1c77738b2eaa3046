package worker

import (
	"strings"
	"unicode"
)

// tail keeps the end of what is written to it.
type tail struct {
	limit int
	kept  []byte
	cut   bool // something has gone
}

// Write never fails.
func (t *tail) Write(b []byte) (int, error) {
	t.kept = append(t.kept, b...)
	if over := len(t.kept) - t.limit; over > 0 {
		t.kept, t.cut = append([]byte(nil), t.kept[over:]...), true
	}
	return len(b), nil
}

// text returns whole lines, fit for a terminal.
func (t *tail) text() string {
	s := string(t.kept)
	if _, rest, _ := strings.Cut(s, "\n"); t.cut && rest != "" {
		s = rest
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}
