package hubsync

import (
	"html"
	"strings"
	"unicode/utf8"

	"slipway/hubapi/hub"
)

const (
	wordsLimit = 500  // bytes of a reason or a remedy
	tailLimit  = 4000 // bytes of the last lines
	tailLines  = 40
)

// step is an event of a start that goes on, or has come off. The text is given escaped too, because the Hub would show
// it raw.
func step(message string, percent int) hub.Event {
	message = cut(message, wordsLimit)
	return hub.Event{Percent: percent, Message: message, HTML: html.EscapeString(message)}
}

// failure is the event of a start that did not come off: the reason, with the rest to be unfolded.
func failure(reason, remedy, tail string) hub.Event {
	reason, remedy = cut(reason, wordsLimit), cut(remedy, wordsLimit)
	var b strings.Builder
	b.WriteString("<details><summary>" + html.EscapeString(reason) + "</summary>" + html.EscapeString(remedy))
	if tail = lastLines(tail); tail != "" {
		b.WriteString("<pre>" + html.EscapeString(tail) + "</pre>")
	}
	b.WriteString("</details>")
	message := reason
	if remedy != "" {
		message += ": " + remedy
	}
	return hub.Event{Percent: 100, Message: message, HTML: b.String(), Failed: true}
}

// cut returns the beginning of a text, on one line.
func cut(s string, most int) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "\ufffd")), " ")
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + "…"
}

// lastLines returns the end of a text, without what is no text.
func lastLines(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
	lines := strings.Split(strings.Trim(s, "\n"), "\n")
	s = strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
	if len(s) <= tailLimit {
		return s
	}
	return "…" + strings.ToValidUTF8(s[len(s)-tailLimit:], "")
}
