package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"unicode/utf8"
)

const splitSpare = 512 // for what a framing adds

// Split makes several messages of one with printed text that is larger than limit, one after the other: clients of
// Jupyter's own server cannot take one above 10 MiB. Any other message stays as it is.
func Split(m Message, limit int) iter.Seq[Message] {
	alone := func(yield func(Message) bool) { yield(m) }
	if m.Size()+splitSpare <= limit || m.Type() != "stream" || len(m.Buffers) > 0 {
		return alone
	}
	var c struct {
		Name string `json:"name"`
		Text string `json:"text"`
	}
	if json.Unmarshal(m.Content, &c) != nil {
		return alone
	}
	room := limit - splitSpare - (m.Size() - len(m.Content)) - len(c.Name)
	if room < 2*utf8.UTFMax {
		return alone
	}
	return func(yield func(Message) bool) {
		for n, rest := 1, c.Text; rest != ""; n++ {
			var piece string
			piece, rest = upTo(rest, room)
			next := m
			next.Content = streamContent(c.Name, piece)
			if n > 1 {
				next.Header = numbered(m.Header, n)
			}
			if !yield(next) {
				return
			}
		}
	}
}

// upTo cuts a text where its JSON has room bytes.
func upTo(text string, room int) (string, string) {
	var before rune
	for i, r := range text {
		if room -= cost(r, before); room < 0 && i > 0 {
			return text[:i], text[i:]
		}
		before = r
	}
	return text, ""
}

// cost is how many bytes a character has at most in JSON.
func cost(r, before rune) int {
	switch {
	case r == '"' || r == '\\' || r == '/' && before == '<':
		return 2
	case r < ' ' || r == 0x7f || r == '\u2028' || r == '\u2029':
		return 6
	}
	return utf8.RuneLen(r)
}

func streamContent(name, text string) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(struct {
		Name string `json:"name"`
		Text string `json:"text"`
	}{name, text}) // of strings it does not fail
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// numbered returns a header with an id of its own.
func numbered(header json.RawMessage, n int) json.RawMessage {
	var h map[string]json.RawMessage
	if json.Unmarshal(header, &h) != nil {
		return header
	}
	h["msg_id"] = quote(fmt.Sprintf("%s_%d", head(header).ID, n))
	b, err := json.Marshal(h)
	if err != nil {
		return header
	}
	return b
}
