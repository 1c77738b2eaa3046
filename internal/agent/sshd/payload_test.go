package sshd

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"
)

func TestPTYRequest(t *testing.T) {
	payload := func(term, modes string) []byte {
		return ssh.Marshal(struct {
			Term       string
			C, R, W, H uint32
			Modes      string
		}{term, 80, 24, 640, 480, modes})
	}
	for name, tt := range map[string]struct {
		b    []byte
		want ptyRequest
		bad  bool
	}{
		"sound":             {b: payload("xterm", "\x35\x00\x00\x00\x01\x01\x00\x00\x00\x03\x00"), want: ptyRequest{"xterm", size{80, 24, 640, 480}, []mode{{53, 1}, {1, 3}}}},
		"no end":            {b: payload("", "\x35\x00\x00\x00\x01"), want: ptyRequest{"", size{80, 24, 640, 480}, []mode{{53, 1}}}},
		"unknown ends":      {b: payload("", "\xa0\x00\x00\x00\x01\x35\x00\x00\x00\x01"), want: ptyRequest{"", size{80, 24, 640, 480}, nil}},
		"half a mode":       {b: payload("", "\x35\x00\x00"), want: ptyRequest{"", size{80, 24, 640, 480}, nil}},
		"a line in TERM":    {b: payload("a\nb", ""), bad: true},
		"a long TERM":       {b: payload(strings.Repeat("x", maxTerm+1), ""), bad: true},
		"nothing":           {b: nil, bad: true},
		"something behind":  {b: append(payload("", ""), 1), bad: true},
		"a length past end": {b: []byte("\xff\xff\xff\xffx"), bad: true},
	} {
		got, err := parsePTY(tt.b)
		if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(ptyRequest{}, mode{})); diff != "" || (err != nil) != tt.bad {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
}

func TestPayloadsRefused(t *testing.T) {
	type two struct{ A, B string }
	direct := func(host string, port uint32) []byte {
		return ssh.Marshal(struct {
			H string
			P uint32
			O string
			F uint32
		}{host, port, "127.0.0.1", 5})
	}
	x11 := func(proto, cookie string, screen uint32) []byte {
		return ssh.Marshal(x11Request{false, proto, cookie, screen})
	}
	for name, err := range map[string]error{
		"env without a name":     second(parseEnv(ssh.Marshal(two{"", "x"}))),
		"env with = in its name": second(parseEnv(ssh.Marshal(two{"A=B", "x"}))),
		"env with a NUL":         second(parseEnv(ssh.Marshal(two{"A", "x\x00y"}))),
		"a huge variable":        second(parseEnv(ssh.Marshal(two{"A", strings.Repeat("x", maxValue+1)}))),
		"a command with a NUL":   second(parseWord(ssh.Marshal(struct{ S string }{"a\x00b"}))),
		"a huge command":         second(parseWord(ssh.Marshal(struct{ S string }{strings.Repeat("x", maxCommand+1)}))),
		"no host":                second(parseDirectTCP(direct("", 80))),
		"port 0":                 second(parseDirectTCP(direct("h", 0))),
		"port 65536":             second(parseDirectTCP(direct("h", 65536))),
		"a listener's port": second(parseListenTCP(ssh.Marshal(struct {
			H string
			P uint32
		}{"", 1 << 16}))),
		"an abstract socket":      second(parseListenUnix(ssh.Marshal(struct{ S string }{"@x"}))),
		"a long path":             second(parseListenUnix(ssh.Marshal(struct{ S string }{strings.Repeat("x", maxPath+1)}))),
		"no path":                 second(parseDirectUnix(ssh.Marshal(struct{ A, B string }{}))),
		"a cookie with a line":    second(parseX11(x11("MIT-MAGIC-COOKIE-1", "00\nadd", 0))),
		"a protocol with a space": second(parseX11(x11("A B", "00", 0))),
		"no cookie":               second(parseX11(x11("A", "", 0))),
		"a screen far away":       second(parseX11(x11("A", "00", 1000))),
	} {
		if err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if a, err := parseDirectTCP(direct("::1", 65535)); err != nil || a != (address{"::1", 65535}) {
		t.Errorf("%v, %v", a, err)
	}
	if r, err := parseX11(x11("MIT-MAGIC-COOKIE-1", "00ff", 1)); err != nil || r.Screen != 1 {
		t.Errorf("%v, %v", r, err)
	}
}

func second[T any](_ T, err error) error { return err }

func FuzzPayloads(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x05xterm\x00\x00\x00\x50\x00\x00\x00\x18\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00"))
	f.Add([]byte("\x00\x00\x00\x01A\x00\x00\x00\x01B"))
	f.Add([]byte("\x00\x00\x00\x09127.0.0.1\x00\x00\x00\x50\x00\x00\x00\x01x\x00\x00\x00\x05"))
	f.Add([]byte("\x00\x00\x00\x00\x01A\x00\x00\x00\x0200\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := parsePTY(b); err == nil && (len(p.term) > maxTerm || len(p.modes) > len(b)/5) {
			t.Errorf("%+v", p)
		}
		_, _ = parseSize(b)
		if kv, err := parseEnv(b); err == nil && (strings.Contains(kv, "\x00") || strings.Index(kv, "=") < 1) {
			t.Errorf("%q", kv)
		}
		if w, err := parseWord(b); err == nil && strings.Contains(w, "\x00") {
			t.Errorf("%q", w)
		}
		if r, err := parseX11(b); err == nil && strings.ContainsAny(r.Protocol+r.Cookie, " \n\r\t\x00") {
			t.Errorf("%+v", r)
		}
		if a, err := parseDirectTCP(b); err == nil && (a.host == "" || a.port == 0) {
			t.Errorf("%+v", a)
		}
		for _, parse := range []func([]byte) (string, error){parseDirectUnix, parseListenUnix} {
			if path, err := parse(b); err == nil && (len(path) > maxPath || strings.HasPrefix(path, "@")) {
				t.Errorf("%q", path)
			}
		}
		_, _ = parseListenTCP(b)
	})
}
