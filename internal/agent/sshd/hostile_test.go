package sshd

import (
	"bytes"
	"strings"
	"testing"

	"slipway/internal/sshtunnel"
)

// FuzzAnswers: whatever a request of the file server's protocol holds, an answer is one whole packet, and a mode has no
// more bits than one of a directory. Links and directories are wanted in a directory that is not there, so nothing is
// made.
func FuzzAnswers(f *testing.F) {
	f.Add(byte(sftpSymlink), []byte("\x00\x00\x00\x01\x00\x00\x00\x01a\x00\x00\x00\x01b"))
	f.Add(byte(sftpMkdir), []byte("\x00\x00\x00\x02\x00\x00\x00\x01d\x00\x00\x00\x04\x00\x00\x41\xc0"))
	f.Add(byte(sftpMkdir), []byte("\x00\x00\x00\x02\x00\x00\x00\x01d\x00\x00\x00\x07\x00\x00"))
	f.Add(byte(sftpExtended), []byte("\x00\x00\x00\x07\x00\x00\x00\x12"+limits))
	f.Add(byte(sftpExtended), []byte("\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, kind byte, request []byte) {
		if bytes.Contains(request, []byte("/")) { // a path of its own
			return
		}
		var out bytes.Buffer
		p := &packets{to: &out}
		err := p.answer("/nonexistent/a/b/c", kind, bytes.Clone(request))
		if b := out.Bytes(); err == nil && (len(b) < sftpHead || int(b[0])<<24|int(b[1])<<16|int(b[2])<<8|int(b[3]) != len(b)-4) {
			t.Errorf("%d %q: %q", kind, request, b)
		}
		if mode := modeIn(uint32(kind), request); mode&^0o777 != 0 {
			t.Errorf("%o", mode)
		}
		if len(request) >= 4 && kind == sftpOpen {
			packet := withMode(append([]byte{0, 0, 0, byte(len(request) + 1), sftpOpen}, request...))
			if len(packet) < len(request)+sftpHead {
				t.Errorf("%q", packet)
			}
		}
	})
}

// FuzzPackets: a packet leaves whole, in however many parts and of whatever bytes it was written; none is lost or made
// up.
func FuzzPackets(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x05a"), []byte("bcde\x00\x00\x00\x01x"))
	f.Add([]byte("\x00\x00\x00\x02\x02x\x00\x00"), []byte("\x00\x01y"))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var out bytes.Buffer
		p := &packets{to: &out, begun: true}
		for _, part := range [][]byte{first, second} {
			if n, err := p.Write(bytes.Clone(part)); err != nil || n != len(part) {
				return
			}
		}
		if all := append(bytes.Clone(first), second...); !bytes.HasPrefix(all, out.Bytes()) {
			t.Errorf("%q and %q leave as %q", first, second, out.Bytes())
		}
	})
}

// FuzzSurroundings: an account file and the addresses of a connection may hold anything; the environment has no line or
// NUL of them that would be another variable.
func FuzzSurroundings(f *testing.F) {
	f.Add("alice:x:20000:100::/home/alice:/bin/bash\n", "192.0.2.7:1234", "[::1]:22")
	f.Add(strings.Repeat(":", 10), "x", "")
	f.Fuzz(func(t *testing.T, file, from, to string) {
		a := readAccount(strings.NewReader(file), 20000)
		if strings.ContainsAny(a.name+a.home+a.shell, ":\n") {
			t.Errorf("%+v", a)
		}
		for _, kv := range connectionOf(sshtunnel.Login{Address: from, Local: to}) {
			if !strings.HasPrefix(kv, "SSH_C") {
				t.Errorf("%q", kv)
			}
		}
		if got := shell(a.shell); !strings.HasPrefix(got, "/") {
			t.Errorf("%q is run for %q", got, a.shell)
		}
	})
}
