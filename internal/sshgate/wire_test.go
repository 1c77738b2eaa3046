package sshgate

import (
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

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
