// Package sshtunnel carries ssh connections between the gateway, which has proved who comes, and the agent of her
// session, where the other ends of their channels are. It is the connection protocol of RFC 4254 without a transport of
// its own: the link between service and agent is private already, and a second encryption would cost as much as the
// first.
//
// An ssh connection has one stream of the link for what concerns all of it, and each of its channels has one more: so
// the link's flow control is the channels'. The gateway opens all streams. The agent asks on the connection's stream
// for channels towards the client.
//
// Promises: a stream that is cut never looks like one that was ended; who floods, stalls or sends garbage costs its own
// connection alone; nothing is buffered beyond a bound. The package must not know what the channels are for.
package sshtunnel

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// Login says who has come; it is the beginning of a connection. It takes no further field: sessions run on through a
// change of the service's program, and an agent of another version could not read it. What is new is a request, which
// who does not know it refuses.
type Login struct {
	ID      string // names the connection, and nobody can guess it
	User    string // as the Hub has her name
	Address string // of the client, host:port
	Local   string // where the client has connected to, host:port
	Key     string // the fingerprint of what she has proved herself with
}

// Refusal is why a channel was not opened, as RFC 4254 section 5.1 has it.
type Refusal struct {
	Reason  uint32
	Message string
}

// Error tells the message.
func (r *Refusal) Error() string { return r.Message }

// ErrCut says that a stream has ended without a word.
var ErrCut = errors.New("the connection to the session was cut")

// The frames. Each is a byte that says what it is, the length of the rest in four bytes, and the rest.
const (
	frameLogin    byte = 'L' // first on a connection's stream
	frameOpen     byte = 'O' // first on a channel's stream
	frameAnswer   byte = 'A' // the same, of a channel that the agent has asked for
	frameAccept   byte = 'a' // answers frameLogin and frameOpen
	frameRefuse   byte = 'r' // answers frameOpen
	frameIncoming byte = 'i' // the agent asks for a channel
	frameRefused  byte = 'x' // and does not get it
	frameRequest  byte = 'q'
	frameReply    byte = 'y'
	frameData     byte = 'd'
	frameStderr   byte = 'e'
	frameEOF      byte = 'f'
	frameClose    byte = 'c'
	// on a connection's stream: the gateway has cut a channel, which its own stream may not tell
	frameGone byte = 'g'
)

const (
	headerSize = 5
	dataSize   = 64 << 10 // most bytes of data in one frame
	frameSize  = headerSize + dataSize
	frameLimit = 256 << 10 // most bytes of a frame's rest that are taken

	// for what is on its way when a channel is closed: workers may be far, and their link slow
	closeTime = 15 * time.Second
)

type openFrame struct {
	ID   string
	Line uint32 // the gateway's number of the channel
	Kind string

	Extra []byte `ssh:"rest"`
}

type answerFrame struct {
	ID           string
	Line, Number uint32
}

type goneFrame struct{ Line uint32 }

type incomingFrame struct {
	Number uint32
	Kind   string
	Extra  []byte `ssh:"rest"`
}

type refusedFrame struct {
	Number, Reason uint32
	Message        string
}

type refuseFrame struct {
	Reason  uint32
	Message string
}

type requestFrame struct {
	Kind    string
	Want    bool
	Payload []byte `ssh:"rest"`
}

type replyFrame struct {
	OK      bool
	Payload []byte `ssh:"rest"`
}

// buffers are those of frames with data. All connections share them: most are idle.
var buffers = pool{sync.Pool{New: func() any { return new([frameSize]byte) }}}

type pool struct{ of sync.Pool }

func (p *pool) get() *[frameSize]byte  { return p.of.Get().(*[frameSize]byte) }
func (p *pool) put(b *[frameSize]byte) { p.of.Put(b) }

// stream is one of the link's, of which a small frame is read at once with its header.
type stream struct {
	net.Conn
	in *bufio.Reader
}

func newStream(c net.Conn) *stream { return &stream{c, bufio.NewReader(c)} }

// Read reads. Much at once does not go through the buffer.
func (s *stream) Read(b []byte) (int, error) { return s.in.Read(b) }

// pipe writes frames to a stream, one at a time.
type pipe struct {
	mu sync.Mutex
	to io.Writer
}

// send writes a frame whose rest is made of a struct; nil is empty.
func (p *pipe) send(kind byte, rest any) error {
	var body []byte
	if rest != nil {
		body = ssh.Marshal(rest)
	}
	if len(body) > frameLimit {
		return fmt.Errorf("send to the session: %d bytes at once are too many", len(body))
	}
	b := make([]byte, headerSize, headerSize+len(body))
	return p.write(kind, append(b, body...))
}

// write writes a frame that has room for its header at its beginning.
func (p *pipe) write(kind byte, frame []byte) error {
	frame[0] = kind
	binary.BigEndian.PutUint32(frame[1:headerSize], uint32(len(frame)-headerSize))
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := p.to.Write(frame)
	return err
}

// readHeader reads what comes next and how long it is.
func readHeader(r io.Reader) (kind byte, size int, err error) {
	var h [headerSize]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return 0, 0, err
	}
	n := binary.BigEndian.Uint32(h[1:])
	if n > frameLimit {
		return 0, 0, fmt.Errorf("a frame of %d bytes", n)
	}
	return h[0], int(n), nil
}

// readRest reads the rest of a frame into a struct; nil wants it empty.
func readRest(r io.Reader, size int, into any) error {
	b := make([]byte, size)
	if _, err := io.ReadFull(r, b); err != nil {
		return err
	}
	if into == nil {
		if size > 0 {
			return errors.New("a frame that should be empty")
		}
		return nil
	}
	return ssh.Unmarshal(b, into)
}
