package sshd

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/crypto/ssh"
)

// The most that a packet may be, and have of a file: what OpenSSH's server takes and gives too. Its clients ask for 32
// KiB at a time where a server does not say.
const (
	maxPacket = 256 << 10
	maxPart   = maxPacket - 1<<10
)

// answer answers what the library answers not at all or otherwise than OpenSSH: it takes the target of a new symbolic
// link for a path from the home on, and makes that another; it makes every directory with the same mode; it knows of no
// limits.
func (p *packets) answer(home string, kind byte, request []byte) error {
	switch kind {
	case sftpSymlink:
		return p.link(home, request)
	case sftpMkdir:
		return p.makeDir(home, request)
	}
	return p.tellLimits(request)
}

// link makes a link as a request wants it, with the target as it is.
func (p *packets) link(home string, request []byte) error {
	var w struct {
		ID           uint32
		Target, Path string
	}
	if err := ssh.Unmarshal(request, &w); err != nil {
		return err
	}
	return p.tell(w.ID, os.Symlink(w.Target, from(home, w.Path)))
}

// makeDir makes a directory with the mode that a request names, as far as the file mask allows.
func (p *packets) makeDir(home string, request []byte) error {
	var w struct {
		ID   uint32
		Path string
		With uint32
		Rest []byte `ssh:"rest"`
	}
	if err := ssh.Unmarshal(request, &w); err != nil {
		return err
	}
	return p.tell(w.ID, os.Mkdir(from(home, w.Path), modeIn(w.With, w.Rest)))
}

// modeIn returns the mode among a request's attributes: behind the size and the owner where those are there.
func modeIn(with uint32, attributes []byte) fs.FileMode {
	const size, owner, mode = 1, 2, 4
	for _, before := range []uint32{size, owner} {
		if with&before != 0 {
			attributes = attributes[min(8, len(attributes)):]
		}
	}
	if with&mode == 0 || len(attributes) < 4 {
		return fs.ModePerm
	}
	return fs.FileMode(binary.BigEndian.Uint32(attributes)) & fs.ModePerm
}

func from(home, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(home, path)
}

// tellLimits says how large packets may be. How many files may be open is not said.
func (p *packets) tellLimits(request []byte) error {
	var w struct {
		ID   uint32
		Name string
	}
	if err := ssh.Unmarshal(request, &w); err != nil {
		return err
	}
	return p.whole(sized(ssh.Marshal(struct {
		Size                       uint32
		Type                       byte
		ID                         uint32
		Packet, Read, Write, Files uint64
	}{0, sftpReply, w.ID, maxPacket, maxPart, maxPart, 0})))
}

// withLimits adds to the file server's first packet that it can say its limits.
func withLimits(packet []byte) []byte {
	if len(packet) < sftpHead || packet[4] != sftpVersion {
		return packet
	}
	return sized(append(packet[:len(packet):len(packet)], ssh.Marshal(struct{ Name, Version string }{limits, "1"})...))
}

// tell answers with how a request ended.
func (p *packets) tell(id uint32, err error) error {
	code, message := status(err)
	return p.whole(sized(ssh.Marshal(struct {
		Size              uint32
		Type              byte
		ID, Code          uint32
		Message, Language string
	}{0, sftpStatus, id, code, message, ""})))
}

// sized writes the length of a packet into it.
func sized(packet []byte) []byte {
	binary.BigEndian.PutUint32(packet, uint32(len(packet)-4))
	return packet
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
