package sshgate

import (
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// speak sends something and gives what is answered.
func speak(t *testing.T, address, text string) string {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	_, _ = io.WriteString(c, text)
	answer := make([]byte, 8)
	n, _ := io.ReadFull(c, answer)
	return string(answer[:n])
}

// TestProxy: a proxy's word is demanded, and nobody else's believed.
func TestProxy(t *testing.T) {
	const header = "PROXY TCP4 192.0.2.7 192.0.2.1 5000 22\r\n"
	local := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	h := open(t, func(c *Config, _ *hall) {
		c.Proxies = local
		c.Networks = []Network{{Groups: []string{"*"}, From: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}}
	})
	c, err := net.Dial("tcp", h.address)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(c, header)
	conn, chans, reqs, err := ssh.NewClientConn(c, h.address, h.clientConfig("alice", h.keeper.alice))
	if err != nil {
		t.Fatal(err)
	}
	client := ssh.NewClient(conn, chans, reqs)
	if out, _, _ := run(t, client, "cat", "hello"); out != "hello" {
		t.Errorf("%q", out)
	}
	_ = client.Close()
	eventually(t, "the address is logged", func() bool { return strings.Contains(h.log.String(), "address=192.0.2.7:5000") })
	for name, text := range map[string]string{
		"no header": "SSH-2.0-x\r\n", "junk": "PROXY TCP4 junk\r\n", "unknown": "PROXY UNKNOWN\r\n", "twice": header + header,
	} {
		if got := speak(t, h.address, text); strings.HasPrefix(got, "SSH-") && name != "twice" {
			t.Errorf("%s: %q", name, got)
		}
	}
	h = open(t, func(c *Config, _ *hall) {
		c.Networks = []Network{{Groups: []string{"*"}, From: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}}
	})
	c, err = net.Dial("tcp", h.address)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(c, header)
	if _, _, _, err := ssh.NewClientConn(c, h.address, h.clientConfig("alice", h.keeper.alice)); err == nil {
		t.Error("the header of nobody's proxy was believed")
	}
}
