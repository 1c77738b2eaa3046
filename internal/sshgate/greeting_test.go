package sshgate

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"
)

// spoken is a connection on which a client says something in pieces, and then nothing more.
type spoken struct {
	net.Conn
	rest  []byte
	piece int
	heard bytes.Buffer // what the client is told
}

func (s *spoken) Read(p []byte) (int, error) {
	if len(s.rest) == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n := copy(p[:min(len(p), max(s.piece, 1))], s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func (s *spoken) Write(p []byte) (int, error)     { return s.heard.Write(p) }
func (s *spoken) SetReadDeadline(time.Time) error { return nil }

// TestVersionLines: what is let through is what RFC 4253 says of a client's line, however it comes in pieces.
func TestVersionLines(t *testing.T) {
	long := "SSH-2.0-" + strings.Repeat("x", mostVersion-len("SSH-2.0-\r\n"))
	for text, want := range map[string]error{
		"SSH-2.0-OpenSSH_9.6\r\n": nil, "SSH-1.99-x\n": nil, "SSH-2.0-x y z\r\nmore": nil, long + "\r\n": nil,
		"": io.ErrUnexpectedEOF, "SSH-2.0-x": io.ErrUnexpectedEOF, "SSH-2.0-x\r": io.ErrUnexpectedEOF,
		"SSH-1.0-x\n": errNoSSH, "SSH\n": errNoSSH, "\n": errNoSSH, "GET / HTTP/1.1\r\n": errNoSSH, "hello\r\nSSH-2.0-x\r\n": errNoSSH,
		long + "x\r\n": errNoSSH, strings.Repeat("S", 1<<20): errNoSSH, "SSH-2.0-" + strings.Repeat("x", 1<<20): errNoSSH,
		"SSH-2.0-a\x00b\r\n": errNoSSH, "\x00\r\n": errNoSSH,
	} {
		for _, piece := range []int{1, 3, 1000, 1 << 20} {
			g := &greeting{Conn: &spoken{rest: []byte(text), piece: piece}}
			if err := g.exchange(); !errors.Is(err, want) {
				t.Errorf("%.20q in pieces of %d: %v, not %v", text, piece, err, want)
			}
		}
	}
}

// TestGreetingKeepsAll: x/crypto reads all that the client has said, and the client is told the gateway's line once.
func TestGreetingKeepsAll(t *testing.T) {
	text := "SSH-2.0-OpenSSH_9.2\r\n" + string(firstWords([]string{ssh.CipherAES128CTR}, nil)) + "and all that follows"
	for _, piece := range []int{1, 7, 22, 1 << 20} {
		c := &spoken{rest: []byte(text), piece: piece}
		g := &greeting{Conn: c}
		if err := g.exchange(); err != nil {
			t.Fatal(err)
		}
		g.choose(ciphers(true))
		for part := range slices.Chunk([]byte(serverVersion+"\r\nnext"), piece) {
			if n, err := g.Write(part); n != len(part) || err != nil {
				t.Fatal(n, err)
			}
		}
		var came []byte
		for b := make([]byte, 5); ; {
			n, err := g.Read(b)
			if came = append(came, b[:n]...); err != nil {
				break
			}
		}
		if string(came) != text || c.heard.String() != serverVersion+"\r\nnext" {
			t.Errorf("in pieces of %d: %q came of %q, %q is told", piece, came, text, c.heard.String())
		}
	}
}

// firstWords is a client's first packet.
func firstWords(up, down []string) []byte {
	payload := ssh.Marshal(lists{KeyExchanges: []string{"k"}, HostKeys: []string{"h"}, Up: up, Down: down, Rest: make([]byte, 30)})
	const padding = 7
	b := binary.BigEndian.AppendUint32(nil, uint32(1+len(payload)+padding))
	return append(append(append(b, padding), payload...), make([]byte, padding)...)
}

// TestChosenCiphers: only an OpenSSH that would take a worse cipher than it could is offered less, and none is offered
// nothing that it takes.
func TestChosenCiphers(t *testing.T) {
	if !hasAES() {
		t.Skip("this processor has no AES: everybody is offered everything")
	}
	all, better := ciphers(true), []string{ssh.CipherAES128GCM, ssh.CipherAES256GCM}
	usual := []string{ssh.CipherChaCha20Poly1305, ssh.CipherAES128CTR, ssh.CipherAES192CTR, ssh.CipherAES256CTR, ssh.CipherAES128GCM, ssh.CipherAES256GCM}
	only := []string{ssh.CipherAES256CTR}
	packet := string(firstWords(usual, usual))
	for name, tt := range map[string]struct {
		line, says string
		want       []string
	}{
		"OpenSSH":                   {"OpenSSH_9.2p1 Debian-2+deb12u6", packet, better},
		"OpenSSH of Windows":        {"OpenSSH_for_Windows_8.1", packet, better},
		"the first with GCM":        {"OpenSSH_6.2", packet, better},
		"GCM in one direction":      {"OpenSSH_9.6", string(firstWords([]string{ssh.CipherAES256GCM}, only[:0:0])), all},
		"one of them each way":      {"OpenSSH_9.6", string(firstWords(better[:1], better[1:])), better},
		"told to take CTR alone":    {"OpenSSH_9.6", string(firstWords(only, only)), all},
		"CTR in one direction":      {"OpenSSH_9.6", string(firstWords(usual, only)), all},
		"without GCM":               {"OpenSSH_5.3", string(firstWords(usual[:4], usual[:4])), all},
		"OpenSSH 10, which prefers": {"OpenSSH_10.0p2", packet, all},
		"PuTTY":                     {"PuTTY_Release_0.78", packet, all},
		"Paramiko":                  {"paramiko_3.4.0", packet, all},
		"Go":                        {"Go", packet, all},
		"one that hides":            {"Weird OpenSSH_9.2", packet, all},
		"no number":                 {"OpenSSH_", packet, all},
		"nothing after the line":    {"OpenSSH_9.2", "", all},
		"half a packet":             {"OpenSSH_9.2", packet[:len(packet)/2], all},
		"another packet":            {"OpenSSH_9.2", strings.Replace(packet, "\x14", "\x15", 1), all},
		"an empty packet":           {"OpenSSH_9.2", "\x00\x00\x00\x00\x00", all},
		"more padding than packet":  {"OpenSSH_9.2", "\x00\x00\x00\x05\x05......", all},
		"a packet without end":      {"OpenSSH_9.2", "\xff\xff\xff\xff\x04" + strings.Repeat("x", 2*mostCame), all},
		"lists that do not fit":     {"OpenSSH_9.2", string(firstWords(slices.Repeat(usual, 40), usual)), all},
	} {
		for _, piece := range []int{1, 100, 1 << 20} {
			g := &greeting{Conn: &spoken{rest: []byte("SSH-2.0-" + tt.line + "\r\n" + tt.says), piece: piece}}
			if err := g.exchange(); err != nil {
				t.Fatal(err)
			}
			if got := g.choose(all); !slices.Equal(got, tt.want) {
				t.Errorf("%s in pieces of %d: %q", name, piece, got)
			}
			if len(g.came) > mostCame {
				t.Errorf("%s in pieces of %d: %d bytes are kept", name, piece, len(g.came))
			}
		}
	}
	if g := (&greeting{line: "SSH-2.0-OpenSSH_9.2\r\n"}); !slices.Equal(g.choose(only), only) {
		t.Error("what is not offered is chosen")
	}
}

// TestAgreed: both sides come to the same, and go on with it.
func TestAgreed(t *testing.T) {
	if !hasAES() {
		t.Skip("this processor has no AES: everybody is offered everything")
	}
	h := open(t, nil)
	for _, tt := range []struct {
		version string
		has     []string
		want    string
	}{
		{"SSH-2.0-OpenSSH_9.2", []string{ssh.CipherAES128CTR, ssh.CipherAES256GCM, ssh.CipherAES128GCM}, ssh.CipherAES256GCM},
		{"SSH-2.0-OpenSSH_9.2", []string{ssh.CipherAES256CTR}, ssh.CipherAES256CTR},
		{"SSH-2.0-x", []string{ssh.CipherAES128CTR, ssh.CipherAES128GCM}, ssh.CipherAES128CTR},
	} {
		cfg := h.clientConfig("alice", h.keeper.alice)
		cfg.ClientVersion, cfg.Ciphers = tt.version, tt.has
		agreed := func() string { // a machine under load may be slow to say its lists
			c, err := ssh.Dial("tcp", h.address, cfg)
			if err != nil {
				t.Fatalf("%+v: %v", tt, err)
			}
			defer c.Close()
			if out, _, _ := run(t, c, "cat", "hello"); out != "hello" {
				t.Errorf("%+v: %q", tt, out)
			}
			return c.Conn.(ssh.AlgorithmsConnMetadata).Algorithms().Write.Cipher
		}
		eventually(t, tt.want, func() bool { return agreed() == tt.want })
	}
}

// TestListsAwaited: a client that says it is OpenSSH, and waits for the gateway's lists before it says its own, does
// not wait long.
func TestListsAwaited(t *testing.T) {
	keeper := newFakeKeeper(t)
	synctest.Test(t, func(t *testing.T) {
		g := New(Config{Gatekeeper: keeper, AtOnce: 1, Logger: slog.New(slog.DiscardHandler)})
		here, there := net.Pipe()
		g.door.approach(t.Context())
		go g.serve(t.Context(), far{there})
		begun := time.Now()
		line := make([]byte, len(serverVersion)+2)
		if _, err := io.ReadFull(here, line); err != nil || string(line) != serverVersion+"\r\n" {
			t.Fatalf("%q, %v", line, err)
		}
		_, _ = io.WriteString(here, "SSH-2.0-OpenSSH_9.2\r\n")
		if _, err := io.ReadFull(here, make([]byte, 5)); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); hasAES() && took != listTime || took > listTime {
			t.Errorf("it is kept waiting for %s", took)
		}
		_ = here.Close()
		synctest.Wait()
	})
}

// shy is the connection of a client that says nothing beyond its line before it has heard something beyond the
// gateway's.
type shy struct {
	net.Conn
	said  bool
	heard int
	now   chan struct{}
}

func (s *shy) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	before := s.heard
	s.heard += n
	if most := len(serverVersion) + 2; before <= most && s.heard > most {
		close(s.now)
	}
	return n, err
}

func (s *shy) Write(p []byte) (int, error) {
	if s.said {
		<-s.now
	}
	s.said = true
	return s.Conn.Write(p)
}

// TestShyClients: who waits for the gateway's lists gets in all the same, also behind a proxy.
func TestShyClients(t *testing.T) {
	for name, header := range map[string]string{"directly": "", "by a proxy": "PROXY TCP4 192.0.2.7 192.0.2.1 5000 22\r\n"} {
		h := open(t, func(c *Config, _ *hall) {
			if header != "" {
				c.Proxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
			}
		})
		c, err := net.Dial("tcp", h.address)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, header)
		cfg := h.clientConfig("alice", h.keeper.alice)
		cfg.ClientVersion = "SSH-2.0-OpenSSH_9.2"
		conn, chans, reqs, err := ssh.NewClientConn(&shy{Conn: c, now: make(chan struct{})}, h.address, cfg)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		client := ssh.NewClient(conn, chans, reqs)
		if out, _, _ := run(t, client, "cat", "hello"); out != "hello" {
			t.Errorf("%s: %q", name, out)
		}
		_ = client.Close()
	}
}

// FuzzGreeting: whatever a client begins with, in pieces of any size, a line that is let through is as RFC 4253 has it,
// nothing of it is lost, little is kept, and what is offered is some of what there is.
func FuzzGreeting(f *testing.F) {
	f.Add([]byte("SSH-2.0-OpenSSH_9.6\r\nrest"), 3)
	f.Add(append([]byte("SSH-2.0-OpenSSH_9.2\r\n"), firstWords(ciphers(true), ciphers(false))...), 100)
	f.Add([]byte("SSH-1.99-x\n"), 1)
	f.Add([]byte("GET / HTTP/1.1\r\n"), 100)
	f.Add([]byte(strings.Repeat("S", 300)), 7)
	f.Fuzz(func(t *testing.T, text []byte, piece int) {
		g := &greeting{Conn: &spoken{rest: text, piece: piece}}
		err := g.exchange()
		line, _, whole := strings.Cut(string(text), "\n")
		sound := whole && len(line) > len("SSH-2.0-") && len(line) < mostVersion && !strings.Contains(line, "\x00") &&
			(strings.HasPrefix(line, "SSH-2.0-") || strings.HasPrefix(line, "SSH-1.99-"))
		if sound != (err == nil) || len(g.came) > mostCame || err == nil && g.line != line+"\n" {
			t.Fatalf("%q in pieces of %d: %v, %q, %d bytes kept", text, piece, err, g.line, len(g.came))
		}
		if err != nil {
			return
		}
		all := ciphers(true)
		if got := g.choose(all); len(got) == 0 || slices.ContainsFunc(got, func(c string) bool { return !slices.Contains(all, c) }) {
			t.Errorf("%q: %q are offered", text, got)
		}
		if came, _ := io.ReadAll(g); string(came) != string(text) {
			t.Errorf("%q came of %q", came, text)
		}
	})
}
