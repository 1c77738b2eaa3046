// Package wire has the messages of Jupyter's kernels in every form in which they travel: signed frames of ZeroMQ
// between an agent and its kernel, the two framings of websockets, and the stream between the service and an agent.
//
// Promises: what is decoded is bounded, and hostile bytes give an error, never a panic; contents are not parsed on the
// way, so that a message comes out as it went in. The package must not open or hold connections; it only reads from and
// writes to what it is given.
package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"slipway/kernels/zmtp"
)

const (
	// Limit is how many bytes a message has at most, in any form.
	Limit = zmtp.Limit
	// RequestLimit is how many bytes a client's message has at most, on its websocket.
	RequestLimit = 64 << 20

	// Session is that of the messages which New makes.
	Session = "slipway"

	headLimit = 1 << 20 // of a header, which is parsed to route a message
	maxParts  = 4096    // of a message: buffers and all else
)

// Channel is one of the ways to and from a kernel.
type Channel string

// The channels. A client sends on the first three; it receives on all.
const (
	Shell   Channel = "shell"
	Control Channel = "control"
	Stdin   Channel = "stdin"
	IOPub   Channel = "iopub"
)

// ErrChannel is of a message on a channel that there is not. Jupyter's servers drop such a message with a warning.
var ErrChannel = errors.New("no such channel")

// parseChannel returns the channel of a name. No name is the shell.
func parseChannel(name string) (Channel, error) {
	switch c := Channel(name); c {
	case "":
		return Shell, nil
	case Shell, Control, Stdin, IOPub:
		return c, nil
	}
	return "", fmt.Errorf("channel %.40q: %w", name, ErrChannel)
}

// Message is one message. Its parts are JSON objects as they were received.
type Message struct {
	Channel  Channel
	Header   json.RawMessage
	Parent   json.RawMessage // the header of the request that this is about; {} for none
	Metadata json.RawMessage
	Content  json.RawMessage
	Buffers  [][]byte
}

// heading is what routing needs of a header.
type heading struct {
	ID      string `json:"msg_id"`
	Type    string `json:"msg_type"`
	Session string `json:"session"`
}

// Type returns the message's type, empty where its header has none.
func (m Message) Type() string { return head(m.Header).Type }

// ID returns the message's id, empty where its header has none.
func (m Message) ID() string { return head(m.Header).ID }

// Session returns the session of who sent the message, empty where its header has none.
func (m Message) Session() string { return head(m.Header).Session }

// ParentID returns the id of the request that the message is about, empty for none.
func (m Message) ParentID() string { return head(m.Parent).ID }

// ParentType returns the type of the request that the message is about, empty for none.
func (m Message) ParentType() string { return head(m.Parent).Type }

// ParentSession returns the session of the client whose request the message is about, empty for none.
func (m Message) ParentSession() string { return head(m.Parent).Session }

func head(b []byte) heading {
	var h heading
	if len(b) > headLimit || json.Unmarshal(b, &h) != nil {
		return heading{}
	}
	return h
}

// Size is about how many bytes the message has in any form.
func (m Message) Size() int {
	n := len(m.Channel) + len(m.Header) + len(m.Parent) + len(m.Metadata) + len(m.Content)
	for _, b := range m.Buffers {
		n += len(b) + 8
	}
	return n
}

// Check says what is wrong with a message that was decoded without being parsed: each part must be one JSON object.
func (m Message) Check() error {
	for _, part := range m.parts() {
		if !object(part.json) {
			return fmt.Errorf("message: its %s is no JSON object", part.name)
		}
	}
	if len(m.Header) > headLimit || len(m.Parent) > headLimit {
		return fmt.Errorf("message: its header has more than %d bytes", headLimit)
	}
	return nil
}

// Oversized says how a message is larger than a client's may be; nil: it is not.
func (m Message) Oversized() error {
	pieces := 5 + len(m.Buffers)
	switch size := 8*(pieces+2) + m.Size(); {
	case size > RequestLimit:
		return fmt.Errorf("%d MiB in one message, and at most %d can be sent", size>>20, RequestLimit>>20)
	case pieces >= maxParts:
		return fmt.Errorf("%d buffers in one message, and at most %d can be sent", len(m.Buffers), maxParts-6)
	}
	return nil
}

type part struct {
	name string
	json json.RawMessage
}

func (m Message) parts() []part {
	return []part{{"header", m.Header}, {"parent_header", m.Parent}, {"metadata", m.Metadata}, {"content", m.Content}}
}

func object(b []byte) bool {
	b = bytes.TrimLeft(b, " \t\r\n")
	return len(b) > 0 && b[0] == '{' && json.Valid(b)
}

// New makes a message as a kernel would: about the request that has this header, nil for none.
func New(c Channel, kind string, parent json.RawMessage, content any) (Message, error) {
	body, err := json.Marshal(content)
	if err != nil {
		return Message{}, fmt.Errorf("make a message %s: %w", kind, err)
	}
	if parent == nil {
		parent = json.RawMessage("{}")
	}
	header, err := json.Marshal(map[string]string{
		"msg_id": NewID(), "msg_type": kind, "session": Session, "username": Session, "version": "5.3",
		"date": Stamp(time.Now()),
	})
	if err != nil {
		return Message{}, err
	}
	return Message{Channel: c, Header: header, Parent: parent, Metadata: json.RawMessage("{}"), Content: body}, nil
}

// Stamp writes a time as Jupyter does. Its Python clients read no other: the fraction and the Z must be there.
func Stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z") }
