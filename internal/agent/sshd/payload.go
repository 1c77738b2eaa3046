package sshd

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"

	"golang.org/x/crypto/ssh"
)

// What the client says of requests and channels, as RFC 4254 and OpenSSH's PROTOCOL have it. All of it may be anything.

const (
	maxTerm    = 128
	maxName    = 256
	maxValue   = 32 << 10
	maxCommand = 128 << 10 // the kernel takes no longer argument
	maxPath    = 107       // of a unix socket
	maxHost    = 255
)

var errPayload = errors.New("not what such a request says")

type size struct{ Columns, Rows, Width, Height uint32 }

type ptyRequest struct {
	term  string
	size  size
	modes []mode
}

// mode is a setting of a terminal.
type mode struct {
	code  byte
	value uint32
}

func parsePTY(b []byte) (ptyRequest, error) {
	var w struct {
		Term                         string
		Columns, Rows, Width, Height uint32
		Modes                        []byte
	}
	if err := ssh.Unmarshal(b, &w); err != nil {
		return ptyRequest{}, err
	}
	if len(w.Term) > maxTerm || strings.ContainsFunc(w.Term, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ptyRequest{}, errPayload
	}
	return ptyRequest{w.Term, size{w.Columns, w.Rows, w.Width, w.Height}, parseModes(w.Modes)}, nil
}

// parseModes takes what it can: the list ends at its end, at a zero, and at the first of a kind whose length nobody
// knows.
func parseModes(b []byte) (list []mode) {
	const unknown = 160
	for len(b) >= 5 && b[0] != 0 && b[0] < unknown {
		list = append(list, mode{b[0], binary.BigEndian.Uint32(b[1:])})
		b = b[5:]
	}
	return list
}

func parseSize(b []byte) (size, error) {
	var s size
	return s, ssh.Unmarshal(b, &s)
}

// parseEnv returns a variable as a process has it.
func parseEnv(b []byte) (string, error) {
	var w struct{ Name, Value string }
	if err := ssh.Unmarshal(b, &w); err != nil {
		return "", err
	}
	if w.Name == "" || len(w.Name) > maxName || len(w.Value) > maxValue || strings.ContainsAny(w.Name, "=\x00") ||
		strings.Contains(w.Value, "\x00") {
		return "", errPayload
	}
	return w.Name + "=" + w.Value, nil
}

// parseWord reads the payloads that are one string: a command, a subsystem, a signal's name.
func parseWord(b []byte) (string, error) {
	var w struct{ Word string }
	if err := ssh.Unmarshal(b, &w); err != nil {
		return "", err
	}
	if len(w.Word) > maxCommand || strings.Contains(w.Word, "\x00") {
		return "", errPayload
	}
	return w.Word, nil
}

type x11Request struct {
	Single           bool
	Protocol, Cookie string
	Screen           uint32
}

// parseX11 refuses what could be another line of what xauth is told.
func parseX11(b []byte) (x11Request, error) {
	const maxScreen = 400
	var w x11Request
	if err := ssh.Unmarshal(b, &w); err != nil {
		return w, err
	}
	if !plain(w.Protocol) || !plain(w.Cookie) || w.Screen > maxScreen {
		return w, errPayload
	}
	return w, nil
}

func plain(s string) bool {
	return s != "" && len(s) <= maxName && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.:/", r)
	})
}

// address is where a connection goes to, or is listened for.
type address struct {
	host string
	port uint16
}

func parseDirectTCP(b []byte) (address, error) {
	var w struct {
		Host   string
		Port   uint32
		Origin string
		From   uint32
	}
	if err := ssh.Unmarshal(b, &w); err != nil {
		return address{}, err
	}
	if w.Host == "" || len(w.Host) > maxHost || w.Port == 0 || w.Port > math.MaxUint16 ||
		strings.Contains(w.Host, "\x00") {
		return address{}, errPayload
	}
	return address{w.Host, uint16(w.Port)}, nil
}

func parseDirectUnix(b []byte) (string, error) {
	var w struct {
		Path     string
		Reserved string
		Number   uint32
	}
	if err := ssh.Unmarshal(b, &w); err != nil {
		return "", err
	}
	return w.Path, checkPath(w.Path)
}

func parseListenTCP(b []byte) (address, error) {
	var w struct {
		Host string
		Port uint32
	}
	if err := ssh.Unmarshal(b, &w); err != nil {
		return address{}, err
	}
	if len(w.Host) > maxHost || w.Port > math.MaxUint16 {
		return address{}, errPayload
	}
	return address{w.Host, uint16(w.Port)}, nil
}

func parseListenUnix(b []byte) (string, error) {
	var w struct{ Path string }
	if err := ssh.Unmarshal(b, &w); err != nil {
		return "", err
	}
	return w.Path, checkPath(w.Path)
}

func checkPath(path string) error {
	if path == "" || len(path) > maxPath || path[0] == '@' || strings.Contains(path, "\x00") {
		return errPayload
	}
	return nil
}
