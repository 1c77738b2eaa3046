package sshgate

import (
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

// line finds the log's line that begins with a message, or waits for it.
func (h *hall) line(message string) string {
	h.t.Helper()
	found := ""
	eventually(h.t, message+" is logged", func() bool {
		for l := range strings.Lines(h.log.String()) {
			if strings.Contains(l, "msg="+message) {
				found = l
			}
		}
		return found != ""
	})
	return found
}

// TestRefusedLine: who looks for attackers, or for why somebody does not get in, finds the name, the keys and the address.
func TestRefusedLine(t *testing.T) {
	h := open(t, nil)
	var keys []ssh.Signer
	for range mostKeys + 1 {
		keys = append(keys, newSigner(t))
	}
	name := "mallory\n" + strings.Repeat("x", 300)
	cfg := h.clientConfig(name, nil)
	cfg.Auth = []ssh.AuthMethod{ssh.PublicKeys(keys...)}
	if _, err := ssh.Dial("tcp", h.address, cfg); err == nil {
		t.Fatal("mallory is in")
	}
	line := h.line(`"ssh refused"`)
	for i, k := range keys {
		if strings.Contains(line, ssh.FingerprintSHA256(k.PublicKey())) != (i < mostKeys) {
			t.Errorf("the %dth key: %s", i, line)
		}
	}
	for _, want := range []string{`login="mallory\nxxx`, `xxx..."`, "tried=6", "address=127.0.0.1:"} {
		if !strings.Contains(line, want) {
			t.Errorf("no %s in %s", want, line)
		}
	}
	if len(line) > 700 {
		t.Errorf("%d bytes: %s", len(line), line)
	}
}

func TestFingerprint(t *testing.T) {
	key := newSigner(t).PublicKey()
	for _, k := range []ssh.PublicKey{key, &ssh.Certificate{Key: key}} {
		if got := fingerprint(k); got != ssh.FingerprintSHA256(key) {
			t.Errorf("%T: %s", k, got)
		}
	}
}
