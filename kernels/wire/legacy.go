package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Legacy is the framing of a websocket for which none was chosen: JSON as text, and binary with the JSON first where
// there are buffers.
type Legacy struct{}

// Encode returns the bytes.
func (Legacy) Encode(m Message) (bool, []byte, error) {
	if err := m.Check(); err != nil {
		return false, nil, err
	}
	if len(m.Buffers) == 0 {
		return false, m.text(true), nil
	}
	b, err := withBuffers(m.text(false), m.Buffers)
	return true, b, err
}

// text returns the message as one JSON object. Within a page, </ would end a script.
func (m Message) text(alone bool) []byte {
	h := head(m.Header)
	b := make([]byte, 0, m.Size()+256)
	for _, p := range m.parts() {
		b = append(b, map[bool]string{true: `{"`, false: `,"`}[len(b) == 0]...)
		b = append(append(append(b, p.name...), `":`...), p.json...)
	}
	b = append(append(b, `,"msg_id":`...), quote(h.ID)...)
	b = append(append(b, `,"msg_type":`...), quote(h.Type)...)
	b = append(append(b, `,"channel":`...), quote(string(m.Channel))...)
	if alone {
		b = append(b, `,"buffers":[]`...)
	}
	b = append(b, '}')
	if alone {
		b = escaped(b)
	}
	return b
}

// escaped writes </ as <\/, where it stands: what is large is not to be there twice.
func escaped(b []byte) []byte {
	n, from := bytes.Count(b, end), len(b)
	b = slices.Grow(b, n)[:len(b)+n]
	for to := len(b); n > 0; n-- {
		at := bytes.LastIndex(b[:from], end) + 1
		to -= from - at
		copy(b[to:], b[at:from])
		to--
		b[to], from = '\\', at
	}
	return b
}

var end = []byte("</") // of something in HTML

func quote(s string) []byte {
	b, _ := json.Marshal(s) // of a string it does not fail
	return b
}

func withBuffers(text []byte, buffers [][]byte) ([]byte, error) {
	pieces := append([][]byte{text}, buffers...)
	at := 4 * (len(pieces) + 1)
	total := at
	for _, p := range pieces {
		total += len(p)
	}
	if total > Limit {
		return nil, fmt.Errorf("message: %d bytes, and at most %d can be sent", total, Limit)
	}
	out := binary.BigEndian.AppendUint32(make([]byte, 0, total), uint32(len(pieces)))
	for _, p := range pieces {
		out = binary.BigEndian.AppendUint32(out, uint32(at))
		at += len(p)
	}
	for _, p := range pieces {
		out = append(out, p...)
	}
	return out, nil
}

// Decode reads a message. A Jupyter Server between passes on as text what a browser sent as binary, its bytes as they
// are: no JSON begins with a zero, and what is binary does.
func (Legacy) Decode(binary bool, data []byte) (Message, error) {
	if len(data) > Limit {
		return Message{}, fmt.Errorf("message: %d bytes", len(data))
	}
	if !binary && !bytes.HasPrefix(data, []byte{0}) {
		return parseText(data)
	}
	pieces, err := cut(data)
	if err != nil {
		return Message{}, err
	}
	m, err := parseText(pieces[0])
	if len(pieces) > 1 {
		m.Buffers = pieces[1:]
	}
	return m, err
}

// cut takes a binary message apart: how many pieces, where each begins, the pieces.
func cut(data []byte) ([][]byte, error) {
	if len(data) < 4 {
		return nil, fmt.Errorf("message: %d bytes", len(data))
	}
	n := binary.BigEndian.Uint32(data)
	if n < 1 || n > maxParts || 4*(uint64(n)+1) > uint64(len(data)) {
		return nil, fmt.Errorf("message: %d parts in %d bytes", n, len(data))
	}
	pieces := make([][]byte, n)
	to := uint32(min(len(data), math.MaxUint32))
	for i := int(n) - 1; i >= 0; i-- {
		from := binary.BigEndian.Uint32(data[4*(i+1):])
		if from > to || from < 4*(n+1) {
			return nil, fmt.Errorf("message: part %d from %d to %d of %d bytes", i, from, to, len(data))
		}
		pieces[i], to = data[from:to:to], from
	}
	return pieces, nil
}

func parseText(data []byte) (Message, error) {
	var t struct {
		Channel  *string         `json:"channel"`
		Header   json.RawMessage `json:"header"`
		Parent   json.RawMessage `json:"parent_header"`
		Metadata json.RawMessage `json:"metadata"`
		Content  json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(data, &t); err != nil {
		return Message{}, fmt.Errorf("message: %w", err)
	}
	name := ""
	if t.Channel != nil {
		name = *t.Channel
	}
	channel, err := parseChannel(name)
	if err != nil {
		return Message{}, err
	}
	m := Message{
		Channel: channel, Header: t.Header, Parent: orEmpty(t.Parent), Metadata: orEmpty(t.Metadata),
		Content: orEmpty(t.Content),
	}
	if m.Header == nil {
		return Message{}, errors.New("message: it has no header")
	}
	if err := m.Check(); err != nil {
		return Message{}, err
	}
	m.Header, err = dated(m.Header)
	return m, err
}

func orEmpty(b json.RawMessage) json.RawMessage {
	if b == nil || string(b) == "null" {
		return json.RawMessage("{}")
	}
	return b
}

// dated returns a header whose date is a text: some clients send seconds since 1970, which kernels do not expect.
func dated(header json.RawMessage) (json.RawMessage, error) {
	var h map[string]json.RawMessage
	var seconds float64
	if err := json.Unmarshal(header, &h); err != nil {
		return nil, fmt.Errorf("message: its header: %w", err)
	}
	if string(h["date"]) == "null" || json.Unmarshal(h["date"], &seconds) != nil || math.Abs(seconds) > 1e11 {
		return header, nil
	}
	h["date"] = quote(Stamp(time.UnixMicro(int64(seconds * 1e6))))
	return json.Marshal(h)
}
