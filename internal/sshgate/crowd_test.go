package sshgate

import (
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"slipway/internal/testenv"
)

// TestHalfOpen: connections that say nothing keep neither who is inside nor who comes after them from working.
func TestHalfOpen(t *testing.T) {
	t.Parallel()
	h := open(t, nil)
	inside := h.alice("alice")
	for range 2000 {
		c, err := net.Dial("tcp", h.address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	if out, _, _ := run(t, inside, "cat", "hello"); out != "hello" {
		t.Errorf("%q", out)
	}
	eventually(t, "the surplus is refused", func() bool {
		s := h.gate.Stats()
		refused := s.Logins["too many"]
		return s.Unproved <= mostOfAddress && refused > 0 && s.Unproved+refused+s.Logins["gone"] == 2000 // some have had their time
	})
	eventually(t, "a newcomer gets in", func() bool {
		c, err := h.client("alice", h.keeper.alice)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}

// TestGarbage: whatever comes in place of ssh ends its own connection alone.
func TestGarbage(t *testing.T) {
	h := open(t, nil)
	for _, text := range []string{
		"GET / HTTP/1.1\r\n\r\n", strings.Repeat("A", 100_000), "SSH-1.0-old\r\n", "SSH-2.0-x\r\n" + strings.Repeat("\xff", 70_000), "SSH-2.0-x\r\n\x00\x00\x00\x00", "",
	} {
		c, err := net.Dial("tcp", h.address)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write([]byte(text))
		_ = c.(*net.TCPConn).CloseWrite()
		_ = c.SetReadDeadline(time.Now().Add(testenv.Hang))
		for b := make([]byte, 4096); err == nil; {
			_, err = c.Read(b)
		}
		if e, is := err.(net.Error); is && e.Timeout() {
			t.Errorf("%.20q is waited for", text)
		}
		_ = c.Close()
	}
	if out, _, _ := run(t, h.alice("alice"), "cat", "hello"); out != "hello" {
		t.Errorf("%q", out)
	}
}

// TestIdle bounds the memory of connections with an open shell on which nothing goes on. The client's and the session's
// parts are in it.
func TestIdle(t *testing.T) {
	const many = 100
	h := open(t, func(c *Config, _ *hall) { c.AtOnce = many })
	before := inUse()
	for range many {
		s, err := h.alice("alice").NewSession()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.StdinPipe(); err != nil {
			t.Fatal(err)
		}
		if err := s.Start("hang"); err != nil {
			t.Fatal(err)
		}
	}
	each := int64(inUse()-before) / many
	t.Logf("%d kB for each", each/1000)
	if each > 400_000 {
		t.Errorf("%d bytes for each idle connection", each)
	}
}

func inUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// BenchmarkCiphers measures what decides which ciphers are offered.
func BenchmarkCiphers(b *testing.B) {
	for _, cipher := range []string{ssh.CipherAES128GCM, ssh.CipherAES128CTR, ssh.CipherChaCha20Poly1305} {
		b.Run(cipher, func(b *testing.B) { benchmarkCipher(b, cipher) })
	}
}

func benchmarkCipher(b *testing.B, cipher string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	cfg := serverConfig([]ssh.Signer{newSigner(b)})
	cfg.NoClientAuth, cfg.Ciphers = true, []string{cipher}
	go func() {
		far, err := l.Accept()
		if err != nil {
			return
		}
		_, chans, reqs, err := ssh.NewServerConn(far, &cfg)
		if err != nil {
			return
		}
		go ssh.DiscardRequests(reqs)
		for nc := range chans {
			c, reqs, _ := nc.Accept()
			go ssh.DiscardRequests(reqs)
			for buf := make([]byte, large); ; {
				if _, err := c.Read(buf); err != nil {
					return
				}
			}
		}
	}()
	client := &ssh.ClientConfig{HostKeyCallback: ssh.InsecureIgnoreHostKey()}
	client.Ciphers = []string{cipher}
	near, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	conn, chans, reqs, err := ssh.NewClientConn(near, "", client)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	c, _, err := ssh.NewClient(conn, chans, reqs).OpenChannel("session", nil)
	if err != nil {
		b.Fatal(err)
	}
	data := make([]byte, large)
	b.SetBytes(large)
	for b.Loop() {
		if _, err := c.Write(data); err != nil {
			b.Fatal(err)
		}
	}
}
