package sshgate

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

func TestDestination(t *testing.T) {
	for _, tt := range []struct {
		kind  string
		extra []byte
		to    string
		host  string
		bad   bool
	}{
		{kindTCP, ssh.Marshal(&directTCP{"127.0.0.1", 8888, "::1", 1}), "127.0.0.1:8888", "127.0.0.1", false},
		{kindTCP, ssh.Marshal(&directTCP{"fe80::1", 80, "", 0}), "[fe80::1]:80", "fe80::1", false},
		{kindTCP, ssh.Marshal(&directTCP{"h", 70000, "", 0}), "", "", true},
		{kindTCP, []byte{0, 0, 0, 9, 'x'}, "", "", true},
		{kindTCP, nil, "", "", true},
		{kindUnix, ssh.Marshal(&struct {
			P, R string
			N    uint32
		}{"/tmp/s", "", 0}), "/tmp/s", "", false},
		{kindUnix, []byte("x"), "", "", true},
		{kindSession, []byte("whatever"), "", "", false},
		{"new@example.org", []byte("whatever"), "", "", false},
	} {
		to, host, err := destination(tt.kind, tt.extra)
		if to != tt.to || host != tt.host || (err != nil) != tt.bad {
			t.Errorf("%s %q: %q, %q, %v", tt.kind, tt.extra, to, host, err)
		}
	}
}

func TestShorten(t *testing.T) {
	for s, want := range map[string]string{"": "", "alice": "alice", "alice6": "alice...", "alic\xff": "alic?", "alicé": "alic...", "\x00": "\x00"} {
		if got := shorten(s, 5); got != want {
			t.Errorf("%q: %q", s, got)
		}
	}
}

func FuzzDestination(f *testing.F) {
	f.Add(kindTCP, ssh.Marshal(&directTCP{"127.0.0.1", 8888, "::1", 1}))
	f.Add(kindUnix, []byte("\x00\x00\x00\x01x\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, kind string, extra []byte) {
		if to, _, err := destination(kind, extra); len(to) > 400 || err != nil && to != "" {
			t.Errorf("%q: %q, %v", extra, to, err)
		}
	})
}

func TestDenied(t *testing.T) {
	deny := []netip.Prefix{netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("fe80::/10")}
	for host, want := range map[string]bool{
		"169.254.169.254": true, "::ffff:169.254.169.254": true, "::ffff:a9fe:a9fe": true, "fe80::1%eth0": true, "[fe80::1]": true, "FE80::1": true,
		"169.255.0.1": false, "127.0.0.1": false, "localhost": false, "metadata.google.internal": false, "": false,
	} {
		if _, is := denied(host, deny); is != want {
			t.Errorf("%s: %v", host, is)
		}
	}
}

// TestForwards: what is denied is refused with words, and channels towards the client come only where it has asked for
// such.
func TestForwards(t *testing.T) {
	h := open(t, nil)
	c := h.alice("alice")
	for _, to := range []string{"169.254.169.254:80", "[::ffff:169.254.169.254]:80"} {
		if _, err := c.Dial("tcp", to); err == nil || !strings.Contains(err.Error(), "opens no forwards to 169.254.0.0/16") {
			t.Errorf("%s: %v", to, err)
		}
	}
	if _, _, err := c.OpenChannel(kindTCP, []byte("junk")); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("junk: %v", err)
	}
	if out, _, _ := run(t, c, "reach", ""); out != "the client has not asked for such channels" {
		t.Errorf("%q", out)
	}
	arrived := c.HandleChannelOpen(kindFromTCP)
	go func() {
		for nc := range arrived {
			if near, reqs, err := nc.Accept(); err == nil {
				go ssh.DiscardRequests(reqs)
				_ = near.Close()
			}
		}
	}()
	if ok, _, err := c.SendRequest("tcpip-forward", true, ssh.Marshal(struct {
		A string
		P uint32
	}{"localhost", 80})); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if out, _, _ := run(t, c, "reach", ""); out != "open" {
		t.Errorf("%q", out)
	}
	h.agent.mu.Lock()
	told := h.agent.peer.Deny() // the session looks at what names become
	h.agent.mu.Unlock()
	if !slices.Equal(told, []string{"169.254.0.0/16"}) {
		t.Errorf("the session was told to deny %q", told)
	}
	if _, _, err := c.SendRequest("no-more-sessions@openssh.com", false, nil); err != nil {
		t.Fatal(err)
	}
	if ok, _, err := c.SendRequest("keepalive@openssh.com", true, nil); !ok || err != nil { // x/crypto does not tell what of both came first
		t.Fatal(ok, err)
	}
	if _, err := c.NewSession(); err == nil {
		t.Error("a session after the last")
	}
	if _, err := c.Dial("tcp", "127.0.0.1:1"); err != nil {
		t.Errorf("a forward after the last session: %v", err)
	}
}
