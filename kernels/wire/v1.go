package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// V1Name is the subprotocol by which a websocket's client asks for the framing V1.
const V1Name = "v1.kernel.websocket.jupyter.org"

// Codec is a framing of websockets.
type Codec interface {
	// Encode returns a message's bytes, and whether they are to travel as binary. Parts that are no JSON are an error
	// where the framing cannot carry them.
	Encode(m Message) (binary bool, data []byte, err error)
	// Decode reads a message. The message shares its memory with data. One on a channel that there is not is an
	// ErrChannel.
	Decode(binary bool, data []byte) (Message, error)
}

// V1 is the framing that is chosen by V1Name, and the one on the stream between service and agent. It does not look
// into the parts.
type V1 struct{}

// Encode returns the bytes, which are always binary.
func (V1) Encode(m Message) (bool, []byte, error) { return true, EncodeV1(m), nil }

// Decode reads a message; text is none.
func (V1) Decode(binary bool, data []byte) (Message, error) {
	if !binary {
		return Message{}, errors.New("message: text, where the framing " + V1Name + " has only binary")
	}
	return DecodeV1(data)
}

// EncodeV1 returns the bytes of a message in the framing V1: how many offsets, the offsets, and what lies between them.
func EncodeV1(m Message) []byte {
	out := headV1(m, len(m.Content)+m.buffered())
	for _, p := range m.bodies() {
		out = append(out, p...)
	}
	return out
}

// PiecesV1 returns the same bytes, in pieces of which all but the first are the message's own.
func PiecesV1(m Message) [][]byte { return append([][]byte{headV1(m, 0)}, m.bodies()...) }

func (m Message) bodies() [][]byte { return append([][]byte{m.Content}, m.Buffers...) }

func (m Message) buffered() (n int) {
	for _, b := range m.Buffers {
		n += len(b)
	}
	return n
}

// headV1 returns what comes before the content, with room for so many bytes behind it.
func headV1(m Message, room int) []byte {
	pieces := append([][]byte{[]byte(m.Channel), m.Header, m.Parent, m.Metadata}, m.bodies()...)
	at := 8 * (len(pieces) + 2)
	out := make([]byte, 0, at+len(m.Channel)+len(m.Header)+len(m.Parent)+len(m.Metadata)+room)
	out = binary.LittleEndian.AppendUint64(out, uint64(len(pieces)+1))
	out = binary.LittleEndian.AppendUint64(out, uint64(at))
	for _, p := range pieces {
		at += len(p)
		out = binary.LittleEndian.AppendUint64(out, uint64(at))
	}
	for _, p := range pieces[:4] {
		out = append(out, p...)
	}
	return out
}

// DecodeV1 reads a message in the framing V1. Its parts are not parsed: see Check.
func DecodeV1(data []byte) (Message, error) {
	if len(data) < 8 || len(data) > Limit {
		return Message{}, fmt.Errorf("message: %d bytes", len(data))
	}
	n := binary.LittleEndian.Uint64(data)
	if n < 6 || n > maxParts || 8*(n+1) > uint64(len(data)) {
		return Message{}, fmt.Errorf("message: %d offsets in %d bytes", n, len(data))
	}
	pieces := make([][]byte, n-1)
	from := binary.LittleEndian.Uint64(data[8:])
	if from < 8*(n+1) {
		return Message{}, errors.New("message: its first part begins within the offsets")
	}
	for i := range pieces {
		to := binary.LittleEndian.Uint64(data[8*(i+2):])
		if to < from || to > uint64(len(data)) {
			return Message{}, fmt.Errorf("message: part %d from %d to %d of %d bytes", i, from, to, len(data))
		}
		pieces[i], from = data[from:to:to], to
	}
	channel, err := parseChannel(string(pieces[0][:min(len(pieces[0]), 64)]))
	m := Message{Channel: channel, Header: pieces[1], Parent: pieces[2], Metadata: pieces[3], Content: pieces[4]}
	if len(pieces) > 5 {
		m.Buffers = pieces[5:]
	}
	return m, err
}
