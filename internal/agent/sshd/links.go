package sshd

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/crypto/ssh"
)

// What the library does otherwise than OpenSSH: it takes the target of a new symbolic link for a path from the home on, and makes that
// another. So these requests do not reach it.
const (
	sftpSymlink  = 20
	sftpStatus   = 101
	sftpHead     = 5 // the length of what follows, and the type
	maxLinkBytes = 64 << 10
)

// requests gives the file server the client's packets, less those for links.
type requests struct {
	from *bufio.Reader
	link func(packet []byte) error
	rest int64 // bytes of the packet that is being read
}

// Read reads, within one packet.
func (r *requests) Read(b []byte) (int, error) {
	for r.rest == 0 {
		if err := r.next(); err != nil {
			return 0, err
		}
	}
	n, err := r.from.Read(b[:min(int64(len(b)), r.rest)])
	r.rest -= int64(n)
	return n, err
}

// next looks at the next packet, and takes it where it is for a link.
func (r *requests) next() error {
	head, err := r.from.Peek(sftpHead)
	if err != nil {
		if len(head) > 0 && errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		}
		return err
	}
	size := int64(binary.BigEndian.Uint32(head))
	if head[4] != sftpSymlink || size < 1 || size > maxLinkBytes {
		r.rest = 4 + size
		return nil
	}
	packet := make([]byte, 4+size)
	if _, err := io.ReadFull(r.from, packet); err != nil {
		return err
	}
	return r.link(packet[sftpHead:])
}

// link makes a link as a request wants it, with the target as it is, and answers.
func (p *packets) link(home string, request []byte) error {
	var w struct {
		ID           uint32
		Target, Path string
	}
	if err := ssh.Unmarshal(request, &w); err != nil {
		return err
	}
	if !filepath.IsAbs(w.Path) {
		w.Path = filepath.Join(home, w.Path)
	}
	code, message := status(os.Symlink(w.Target, w.Path))
	answer := ssh.Marshal(struct {
		Size              uint32
		Type              byte
		ID, Code          uint32
		Message, Language string
	}{0, sftpStatus, w.ID, code, message, ""})
	binary.BigEndian.PutUint32(answer, uint32(len(answer)-4))
	return p.whole(answer)
}

// status says how something ended as the protocol has it.
func status(err error) (code uint32, message string) {
	switch {
	case err == nil:
		return 0, "Success"
	case errors.Is(err, fs.ErrNotExist):
		return 2, "No such file"
	case errors.Is(err, fs.ErrPermission):
		return 3, "Permission denied"
	}
	return 4, err.Error()
}
