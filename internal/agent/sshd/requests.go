package sshd

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"strings"

	"golang.org/x/crypto/ssh"
)

// The packets of the protocol that do not reach the library as they are.
const (
	sftpVersion  = 2
	sftpOpen     = 3
	sftpMkdir    = 14
	sftpSymlink  = 20
	sftpStatus   = 101
	sftpExtended = 200
	sftpReply    = 201

	sftpHead = 5 // the length of what follows, and the type
	maxNames = 64 << 10
)

const limits = "limits@openssh.com"

// requests gives the file server the client's packets, less those that are answered here.
type requests struct {
	from   *bufio.Reader
	answer func(kind byte, packet []byte) error
	rest   int64  // bytes of the packet that is being read
	other  []byte // what is left of one that is given instead of the client's
}

// Read reads, within one packet.
func (r *requests) Read(b []byte) (int, error) {
	for r.rest == 0 && len(r.other) == 0 {
		if err := r.next(); err != nil {
			return 0, err
		}
	}
	if len(r.other) > 0 {
		n := copy(b, r.other)
		r.other = r.other[n:]
		return n, nil
	}
	n, err := r.from.Read(b[:min(int64(len(b)), r.rest)])
	r.rest -= int64(n)
	return n, err
}

// next looks at the next packet, and takes it where it is answered here or changed.
func (r *requests) next() error {
	head, err := r.from.Peek(sftpHead)
	if err != nil {
		if len(head) > 0 && errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		}
		return err
	}
	size, kind := int64(binary.BigEndian.Uint32(head)), head[4]
	if size < 1 || size > maxNames || !r.isOurs(kind) {
		r.rest = 4 + size
		return nil
	}
	packet := make([]byte, 4+size)
	if _, err := io.ReadFull(r.from, packet); err != nil {
		return err
	}
	if kind == sftpOpen {
		r.other = withMode(packet)
		return nil
	}
	return r.answer(kind, packet[sftpHead:])
}

func (r *requests) isOurs(kind byte) bool {
	switch kind {
	case sftpOpen, sftpMkdir, sftpSymlink:
		return true
	case sftpExtended:
		const before = sftpHead + 8 // the number of the request, and the length of the name
		head, _ := r.from.Peek(before + len(limits))
		return len(head) == before+len(limits) && strings.HasSuffix(string(head), "\x00\x00\x00\x12"+limits)
	}
	return false
}

// withMode returns a request to open a file in which a mode is named, as far as it names none: what is made then is
// what the file mask leaves, as with OpenSSH. The library would make it writable for its owner alone.
func withMode(packet []byte) []byte {
	var w struct {
		ID   uint32
		Path string
		How  uint32
		With uint32
	}
	const mode = 4
	if ssh.Unmarshal(packet[sftpHead:], &w) != nil || w.With != 0 {
		return packet
	}
	packet[len(packet)-1] = mode
	return sized(binary.BigEndian.AppendUint32(packet, 0o666))
}
