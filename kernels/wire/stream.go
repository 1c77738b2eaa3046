package wire

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"slipway/kernels/zmtp"
)

// The stream between service and agent: a Hello, a Welcome, and then frames. Up, to the agent, goes what the client
// sends and which messages it has; down comes each message with its number, and how many of the client's messages were
// taken. Messages are in the framing V1.

const (
	lineLimit    = 4 << 10
	welcomeLimit = 64 << 10

	// ClientLimit is how many bytes a client's name for itself has at most.
	ClientLimit = 256

	// CellLimit is how many bytes a Welcome's Cell has at most.
	CellLimit = 2 << 10

	// AskedLimit is how many bytes the headers in a Welcome's Asked have at most, together.
	AskedLimit = 32 << 10

	upMessage = 'm'
	upAck     = 'a'
)

// Hello names the client: the session_id of its websocket. Who comes again with the same name gets what it has not
// acknowledged.
type Hello struct {
	Client string `json:"client"`
	Came   int64  `json:"came,omitempty"`  // when it came to the service, in milliseconds since 1970: of two of one name the later one stays
	Fresh  bool   `json:"fresh,omitempty"` // it begins anew, and wants nothing of what was kept for this name
	Once   bool   `json:"once,omitempty"`  // it sends once more what may not have come: each message is to be taken once
	Takes  bool   `json:"takes,omitempty"` // it wants to know what was taken, and sends the rest once more over another stream, with Once
	Asks   bool   `json:"asks,omitempty"`  // it wants to know which cells are not answered, and reads a longer Welcome
}

// Welcome is the agent's answer. With an Error the stream ends.
type Welcome struct {
	State string `json:"state"`           // of the kernel, as Jupyter has it
	Acked uint64 `json:"acked"`           // the number up to which the client has all; what follows comes now
	Error string `json:"error,omitempty"` // why there is no kernel here
	Takes bool   `json:"takes,omitempty"` // it says what was taken, as the Hello asked; an older agent does not

	// Cell is the header of the cell that the client has had run last: what it is to be told is shown under it.
	Cell json.RawMessage `json:"cell,omitempty"`
	// Asked are cells of the client's that the kernel has not answered, as the Hello asked.
	Asked []Asked `json:"asked,omitempty"`
}

// Asked is a cell that is not answered.
type Asked struct {
	Channel Channel         `json:"channel"`
	Header  json.RawMessage `json:"header"`
}

// ID returns the message's id.
func (a Asked) ID() string { return head(a.Header).ID }

// WriteHello begins the stream.
func WriteHello(w io.Writer, h Hello) error {
	if len(h.Client) > ClientLimit {
		return fmt.Errorf("the client's name has %d bytes, and at most %d", len(h.Client), ClientLimit)
	}
	return writeLine(w, h)
}

// ReadHello reads what WriteHello wrote.
func ReadHello(r *bufio.Reader) (h Hello, err error) {
	if err := readLine(r, lineLimit, &h); err != nil {
		return Hello{}, err
	}
	if len(h.Client) > ClientLimit {
		return Hello{}, errors.New("the client's name is too long")
	}
	return h, nil
}

// WriteWelcome answers a Hello.
func WriteWelcome(w io.Writer, v Welcome) error { return writeLine(w, v) }

// ReadWelcome reads what WriteWelcome wrote.
func ReadWelcome(r *bufio.Reader) (v Welcome, err error) {
	err = readLine(r, welcomeLimit, &v)
	return v, err
}

func writeLine(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

func readLine(r *bufio.Reader, limit int, v any) error {
	var line []byte
	for len(line) == 0 || line[len(line)-1] != '\n' {
		b, err := r.ReadByte()
		if err != nil {
			return err
		}
		if line = append(line, b); len(line) > limit {
			return errors.New("the stream's first line is too long")
		}
	}
	if err := json.Unmarshal(line, v); err != nil {
		return fmt.Errorf("the stream's first line: %w", err)
	}
	return nil
}

// Up is what goes to the agent: a message, or with none the number up to which the client has all.
type Up struct {
	Message []byte // V1
	Ack     uint64
}

// WriteMessage sends a message to the agent.
func WriteMessage(w io.Writer, v1 []byte) error { return writeFrame(w, []byte{upMessage}, v1) }

// WriteAck says that the client has all messages up to this number.
func WriteAck(w io.Writer, seq uint64) error {
	return writeFrame(w, binary.BigEndian.AppendUint64([]byte{upAck}, seq))
}

// ReadUp reads what WriteMessage or WriteAck wrote.
func ReadUp(r *bufio.Reader) (Up, error) {
	b, err := readFrame(r)
	switch {
	case err != nil:
		return Up{}, err
	case len(b) > 1 && b[0] == upMessage:
		return Up{Message: b[1:]}, nil
	case len(b) == 9 && b[0] == upAck:
		return Up{Ack: binary.BigEndian.Uint64(b[1:])}, nil
	}
	return Up{}, fmt.Errorf(
		"the stream has a frame of %d bytes that is neither a message nor an acknowledgement", len(b),
	)
}

// WriteDown sends a message, which may be in pieces, with its number to the service.
func WriteDown(w io.Writer, seq uint64, v1 ...[]byte) error {
	return writeFrame(w, binary.BigEndian.AppendUint64(nil, seq), v1...)
}

// WriteTaken says how many messages of this stream were taken since its beginning: the kernel has them, or has had them
// before, or they were answered in its place. None of them is to be sent again. Only a Hello that asks for it is told.
func WriteTaken(w io.Writer, messages uint64) error {
	return writeFrame(w, binary.BigEndian.AppendUint64(nil, messages))
}

// Down is what comes from the agent: a message and its number, or with none how many of the client's messages were
// taken on this stream.
type Down struct {
	Seq     uint64
	Message []byte // V1
	Taken   uint64
}

// ReadDown reads what WriteDown or WriteTaken wrote.
func ReadDown(r *bufio.Reader) (Down, error) {
	b, err := readFrame(r)
	switch {
	case err != nil:
		return Down{}, err
	case len(b) > 8:
		return Down{Seq: binary.BigEndian.Uint64(b), Message: b[8:]}, nil
	case len(b) == 8:
		return Down{Taken: binary.BigEndian.Uint64(b)}, nil
	}
	return Down{}, fmt.Errorf("the stream has a frame of %d bytes, which is neither a message nor a count", len(b))
}

// writeFrame writes the length of what follows, and that. Whoever gives a bufio.Writer flushes it.
func writeFrame(w io.Writer, first []byte, rest ...[]byte) error {
	n := len(first)
	for _, b := range rest {
		n += len(b)
	}
	if n > Limit+16 {
		return fmt.Errorf("a frame of %d bytes is too large for the stream", n)
	}
	b := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(first)), uint32(n))
	if _, err := w.Write(append(b, first...)); err != nil {
		return err
	}
	for _, b := range rest {
		if len(b) == 0 {
			continue
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return nil
}

func readFrame(r *bufio.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := int64(binary.BigEndian.Uint32(size[:]))
	if n > Limit+16 {
		return nil, fmt.Errorf("the stream has a frame of %d bytes, and at most %d", n, Limit)
	}
	b, err := zmtp.ReadN(r, int(n))
	return b, whole(err)
}

func whole(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
