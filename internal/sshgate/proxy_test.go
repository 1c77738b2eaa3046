package sshgate

import (
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"slipway/internal/testenv"
)

// speak sends something and gives what is answered.
func speak(t *testing.T, address, text string) string {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(testenv.Hang))
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

// TestSilentProxies: however many of a proxy's connections do not say for whom they come, one that does is served at
// once.
func TestSilentProxies(t *testing.T) {
	keeper := newFakeKeeper(t)
	synctest.Test(t, func(t *testing.T) {
		g := New(Config{
			Gatekeeper: keeper, AtOnce: 1, Logger: slog.New(slog.DiscardHandler), Proxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.7/32")},
		})
		come := func() (here net.Conn) {
			here, there := net.Pipe()
			g.door.approach(t.Context())
			g.work.Go(func() { g.serve(t.Context(), far{there}) })
			synctest.Wait() // who comes later is younger
			return here
		}
		begun, silent := time.Now(), []net.Conn{}
		for range 3 * (mostArriving + mostSilent) {
			silent = append(silent, come())
		}
		c := come()
		_, _ = io.WriteString(c, "PROXY TCP4 203.0.113.1 192.0.2.1 5000 22\r\n")
		if answer := make([]byte, len("SSH-2.0-")); !reads(c, answer) || string(answer) != "SSH-2.0-" || time.Since(begun) > 0 {
			t.Errorf("%q after %s", answer, time.Since(begun))
		}
		_ = c.Close()
		_ = reads(silent[len(silent)-1], make([]byte, 1))
		if took := time.Since(begun); took != headerTime {
			t.Errorf("it is waited %s for the last of those that say nothing", took)
		}
		g.work.Wait()
	})
}

func reads(c net.Conn, all []byte) bool {
	_, err := io.ReadFull(c, all)
	return err == nil
}
