package sshgate

import (
	"encoding/binary"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/crypto/ssh"
)

// FuzzListenAddress: whatever somebody asks to listen at, the log's word for it is short and sound.
func FuzzListenAddress(f *testing.F) {
	f.Add("tcpip-forward", ssh.Marshal(struct {
		H string
		P uint32
	}{"localhost", 0}), []byte{0, 0, 0x1f, 0x90})
	f.Add("streamlocal-forward@openssh.com", ssh.Marshal(struct{ P string }{"/tmp/s"}), []byte(nil))
	f.Add("tcpip-forward", []byte("\xff\xff\xff\xffx"), []byte("x"))
	f.Fuzz(func(t *testing.T, kind string, payload, answer []byte) {
		if at := listenAddress(&ssh.Request{Type: kind, Payload: payload}, answer); len(at) > 210 || !utf8.ValidString(at) {
			t.Errorf("%q", at)
		}
	})
}

// FuzzProveKeys: of a list of keys that a client makes up nothing is signed, and no list is too long or too wrong to be
// read.
func FuzzProveKeys(f *testing.F) {
	v := &visitor{connection: connection{g: &Gate{cfg: Config{Gatekeeper: newFakeKeeper(f)}}}}
	key := ssh.Marshal(struct{ K []byte }{newSigner(f).PublicKey().Marshal()})
	f.Add(key)
	f.Add([]byte(strings.Repeat(string(key), mostProofs+1)))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Add(binary.BigEndian.AppendUint32(nil, 0))
	f.Fuzz(func(t *testing.T, payload []byte) {
		if ok, answer := v.proveKeys(payload); ok || len(answer) > 0 {
			t.Errorf("%q is signed for", payload)
		}
	})
}

// FuzzPlain: what a user is shown has nothing that a terminal would act on, and a name in the log is short.
func FuzzPlain(f *testing.F) {
	f.Add("a\x1b[2Jb\r\n\u009b31m\xff")
	f.Add(strings.Repeat("é", 200))
	f.Fuzz(func(t *testing.T, s string) {
		if got := plain(s); strings.ContainsFunc(got, unicode.IsControl) || !utf8.ValidString(got) {
			t.Errorf("%q", got)
		}
		if got := shorten(s, mostName); len(got) > mostName+3 || !utf8.ValidString(got) {
			t.Errorf("%q", got)
		}
	})
}
