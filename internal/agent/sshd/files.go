package sshd

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"os"
	"sync"
	"syscall"

	"github.com/pkg/sftp"
)

const readAhead = 64 << 10

// files serves the channel as the file server. It works in the agent itself: no image needs a program for it.
func (s *session) files() {
	defer close(s.finished)
	out := &packets{to: s.channel}
	in := &requests{
		from:   bufio.NewReaderSize(holding{s.channel, s.server}, readAhead),
		answer: func(kind byte, packet []byte) error { return out.answer(s.directory(), kind, packet) },
	}
	both := felt{Reader: in, Writer: out, moved: s.moved}
	options := []sftp.ServerOption{sftp.WithAllocator(), sftp.WithMaxTxPacket(maxPart)}
	if here, err := os.Getwd(); err != nil || here != s.directory() {
		// With it targets of links become absolute.
		options = append(options, sftp.WithServerWorkingDirectory(s.directory()))
	}
	server, err := sftp.NewServer(ending{both, s}, options...)
	if err == nil {
		err = server.Serve()
	}
	code := syscall.WaitStatus(0)
	if err != nil {
		code = 1 << 8
	}
	kind, payload := exit(code)
	_, _ = s.channel.Send(context.Background(), kind, false, payload)
	_ = s.channel.CloseWrite()
}

// Hold lets file transfers rest until release is called, as the session's processes do while its changes are read.
func (s *Server) Hold() (release func()) {
	s.transfers.Lock()
	return sync.OnceFunc(s.transfers.Unlock)
}

// holding gives what it reads when transfers do not rest.
type holding struct {
	io.Reader
	server *Server
}

// Read reads.
func (h holding) Read(b []byte) (int, error) {
	n, err := h.Reader.Read(b)
	h.server.transfers.RLock()
	defer h.server.transfers.RUnlock()
	return n, err
}

// packets writes the file server's packets whole: it writes the beginning of one and its data apart, and each would be
// a packet of ssh.
type packets struct {
	to    io.Writer
	head  []byte // what has been written of a packet whose rest is to come
	buf   []byte
	begun bool // the first packet, which tells the version, has gone

	mu sync.Mutex // of to
}

// whole writes a packet.
func (p *packets) whole(b []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := p.to.Write(b)
	return err
}

// Write writes a packet, or the first part of one, which begins with the length of what follows.
func (p *packets) Write(b []byte) (int, error) {
	const size = 4
	if len(p.head) == 0 && len(b) >= size && uint64(binary.BigEndian.Uint32(b)) > uint64(len(b)-size) {
		p.head = append(p.head, b...)
		return len(b), nil
	}
	all := b
	if len(p.head) > 0 {
		p.buf = append(append(p.buf[:0], p.head...), b...)
		p.head, all = p.head[:0], p.buf
	}
	if !p.begun {
		p.begun, all = true, withLimits(all)
	}
	if err := p.whole(all); err != nil {
		return 0, err
	}
	return len(b), nil
}

// ending is a channel whose closing wakes its reader.
type ending struct {
	felt
	s *session
}

// Close ends the channel.
func (e ending) Close() error {
	e.s.channel.Cut()
	return nil
}
