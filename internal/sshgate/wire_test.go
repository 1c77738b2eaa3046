package sshgate

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// TestGreet: the first line is a sound one, however it comes in pieces.
func TestGreet(t *testing.T) {
	for line, sound := range map[string]bool{
		"SSH-2.0-OpenSSH_9.6\r\n": true, "SSH-1.99-x\n": true, "SSH-2.0-x": false, "SSH-1.0-x\n": false, "SSH\n": false, "\n": false,
		"GET / HTTP/1.1\r\n": false, "hello\r\nSSH-2.0-x\r\n": false, "SSH-2.0-" + strings.Repeat("x", mostVersion) + "\n": false,
	} {
		for _, piece := range []int{1, 3, 1000} {
			greeted, err := false, error(nil)
			w := newWire(nil, nil)
			w.greeted = func() { greeted = true }
			for rest := line; rest != "" && err == nil && w.greeted != nil; {
				n := min(piece, len(rest))
				err = w.greet([]byte(rest[:n]))
				rest = rest[n:]
			}
			if greeted != sound || sound && err != nil || !sound && line != "SSH-2.0-x" && !errors.Is(err, errNoSSH) {
				t.Errorf("%.20q in pieces of %d: %v, %v", line, piece, greeted, err)
			}
		}
	}
}

// TestNoSSH: what speaks something else, or says nothing, does not stay for the time that logins have.
func TestNoSSH(t *testing.T) {
	t.Parallel()
	h := open(t, nil)
	var open []net.Conn
	for _, text := range []string{"GET / HTTP/1.1\r\n", "SSH-1.5-x\r\n", "", "SSH-2.0-"} {
		c, err := net.Dial("tcp", h.address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = c.Write([]byte(text))
		open = append(open, c)
	}
	for i, c := range open {
		_ = c.SetReadDeadline(time.Now().Add(loginTime / 2))
		_, err := io.Copy(io.Discard, c)
		if e, is := err.(net.Error); is && e.Timeout() {
			t.Errorf("%d is listened to", i)
		}
	}
}

// TestCostly: no handshake is let that costs the service much.
func TestCostly(t *testing.T) {
	h := open(t, nil)
	for kex, lets := range map[string]bool{
		ssh.KeyExchangeCurve25519: true, ssh.KeyExchangeMLKEM768X25519: true, ssh.KeyExchangeECDHP256: true,
		ssh.KeyExchangeDH14SHA256: false, ssh.KeyExchangeDH16SHA512: false, ssh.InsecureKeyExchangeDH14SHA1: false,
	} {
		cfg := h.clientConfig("alice", h.keeper.alice)
		cfg.KeyExchanges = []string{kex}
		c, err := ssh.Dial("tcp", h.address, cfg)
		if (err == nil) != lets {
			t.Errorf("%s: %v", kex, err)
		}
		if err == nil {
			_ = c.Close()
		}
	}
}
