package sshgate

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"regexp"
	"time"

	"golang.org/x/crypto/ssh"
)

// greeting is a client's connection before x/crypto has it. That has no place between the lines by which both say what
// they are and its own lists of algorithms, so the gateway says its line itself, reads what the client begins with, and
// chooses. Then x/crypto is given all of that once more, and what it says as its line is swallowed, because it was
// said.
type greeting struct {
	net.Conn
	line string // the client's, once it is whole
	came []byte // what has come and was not read again
	mute int    // how much of x/crypto's line is still to be swallowed
}

const (
	mostVersion = 255 // how long the client's line may be with its end: RFC 4253, section 4.2
	mostCame    = 4 << 10

	// listTime is how long it is waited for the client's lists. They come one round trip after its line.
	listTime = 100 * time.Millisecond
)

var errNoSSH = errors.New("no ssh of version 2 is spoken")

// exchange says the gateway's line and reads the client's.
func (g *greeting) exchange() error {
	said, err := io.WriteString(g.Conn, serverVersion+"\r\n")
	if err != nil {
		return err
	}
	g.mute = said
	for err == nil && g.line == "" {
		if err = g.more(); err == nil {
			g.line, err = versionLine(g.came)
		}
	}
	return err
}

// more waits for some more of what the client begins with.
func (g *greeting) more() error {
	if g.came == nil {
		g.came = make([]byte, 0, mostCame)
	}
	n, err := g.Conn.Read(g.came[len(g.came):cap(g.came)])
	g.came = g.came[:len(g.came)+n]
	if n > 0 {
		return nil // an error comes again
	}
	return err
}

// versionLine returns a client's line with its end, empty as long as that has not come. What speaks something else is
// known by the first bytes, so that it is not listened to.
func versionLine(came []byte) (string, error) {
	line, _, whole := bytes.Cut(came, []byte("\n"))
	short := whole && len(line) <= len("SSH-2.0-")
	if short || len(line) >= mostVersion || !begins(line, "SSH-2.0-") && !begins(line, "SSH-1.99-") ||
		bytes.IndexByte(line, 0) >= 0 {
		return "", errNoSSH
	}
	if !whole {
		return "", nil
	}
	return string(line) + "\n", nil
}

// begins reports whether a line begins with a word, as far as it has come.
func begins(line []byte, word string) bool {
	n := min(len(line), len(word))
	return string(line[:n]) == word[:n]
}

// listsFirst are the clients whose lists are waited for: all others may be waiting for the gateway's, or put what is
// better first by themselves, as OpenSSH does from 10 on.
var listsFirst = regexp.MustCompile(`^SSH-2\.0-OpenSSH_(for_Windows_)?[1-9]\.`)

// choose chooses among the ciphers that could be offered. Where it is waited for the client, its deadline for reading
// is changed.
func (g *greeting) choose(all []string) []string {
	if !listsFirst.MatchString(g.line) || len(authenticated(all)) == 0 {
		return all
	}
	_ = g.SetReadDeadline(time.Now().Add(listTime))
	for {
		packet, whole := firstPacket(g.came[len(g.line):])
		if whole {
			return suited(all, packet)
		}
		if len(g.came) == cap(g.came) || g.more() != nil {
			return all
		}
	}
}

// firstPacket returns the payload of the first packet, which is in the clear; empty: it is none.
func firstPacket(b []byte) (payload []byte, whole bool) {
	if len(b) < 5 {
		return nil, false
	}
	size, padding := binary.BigEndian.Uint32(b), uint32(b[4])
	if size > mostCame || size < 1+padding {
		return nil, true
	}
	if b = b[4:]; uint32(len(b)) < size {
		return nil, false
	}
	return b[1 : size-padding], true
}

// lists is the beginning of SSH_MSG_KEXINIT, RFC 4253, section 7.1.
type lists struct {
	Cookie       [16]byte `sshtype:"20"`
	KeyExchanges []string
	HostKeys     []string
	Up, Down     []string // the ciphers, by direction
	Rest         []byte   `ssh:"rest"`
}

// suited returns the ciphers that a client is offered which says this first. It takes the first of its own list that is
// offered: that would be one of those that need a checksum beside them, where it has better ones as well.
func suited(all []string, packet []byte) []string {
	var l lists
	better := authenticated(all)
	if ssh.Unmarshal(packet, &l) != nil || !meet(better, l.Up) || !meet(better, l.Down) {
		return all
	}
	return better
}

// Read reads what has come already first.
func (g *greeting) Read(p []byte) (int, error) {
	if len(g.came) == 0 {
		return g.Conn.Read(p)
	}
	n := copy(p, g.came)
	if g.came = g.came[n:]; len(g.came) == 0 {
		g.came = nil
	}
	return n, nil
}

// Write swallows what was said already.
func (g *greeting) Write(p []byte) (int, error) {
	if g.mute == 0 {
		return g.Conn.Write(p)
	}
	n := min(g.mute, len(p))
	if g.mute -= n; n == len(p) {
		return n, nil
	}
	written, err := g.Conn.Write(p[n:])
	return n + written, err
}
