package doctor

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"slipway/internal/config"
)

// hostKey makes a host key and writes it where the service has its own.
func hostKey(t *testing.T, dir string) ssh.Signer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "ssh_host_ed25519_key"), pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

// answering serves ssh with a host key, or something else.
func answering(t *testing.T, key ssh.Signer) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-done })
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if key != nil {
				cfg := &ssh.ServerConfig{NoClientAuth: true}
				cfg.AddHostKey(key)
				_, _, _, _ = ssh.NewServerConn(c, cfg)
			}
			c.Close()
		}
	}()
	return l.Addr().String()
}

func TestDoctorSSH(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	ours, theirs := hostKey(t, dir), hostKey(t, elsewhere)
	for name, tt := range map[string]struct {
		at   string
		says string
	}{
		"ours": {answering(t, ours), ""}, "another's": {answering(t, theirs), "which is not this service's"},
		"no ssh": {answering(t, nil), "no ssh that can be used"}, "nobody": {"127.0.0.1:1", "does not answer"},
	} {
		err := sshAnswers(t.Context(), tt.at, dir)
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDoctorSSHPort: another program at the service's port is told from one that is elsewhere, and from a proxy's
// silence.
func TestDoctorSSHPort(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	ours, theirs := hostKey(t, dir), hostKey(t, elsewhere)
	silent, other, mine := answering(t, nil), answering(t, theirs), answering(t, ours)
	const words = "belongs to another program"
	for name, tt := range map[string]struct {
		ssh  config.SSH
		at   string
		says string
	}{
		"no ssh": {config.SSH{Listen: silent}, silent, words}, "another's": {config.SSH{Listen: other}, other, words}, "ours": {config.SSH{Listen: mine}, mine, ""},
		"elsewhere": {config.SSH{Listen: "127.0.0.1:1"}, other, "not this service's"},
		"a proxy":   {config.SSH{Listen: silent, TrustedProxies: []string{"192.0.2.1"}}, silent, "PROXY header"},
		"no host":   {config.SSH{Listen: "127.0.0.1:1"}, "nowhere.invalid:1", "no address is known for ssh.host"},
	} {
		err := sshReached(t.Context(), tt.ssh, tt.at, dir)
		if (err == nil) != (tt.says == "") || err != nil && (!strings.Contains(err.Error(), tt.says) || tt.says != words && strings.Contains(err.Error(), words)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDoctorSSHKeys(t *testing.T) {
	var word goodWord
	if err := keysAreKept(filepath.Join(t.TempDir(), "none")); !errors.As(err, &word) {
		t.Errorf("not made yet: %v", err)
	}
	dir := filepath.Join(t.TempDir(), "ssh")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	hostKey(t, dir)
	if err := keysAreKept(dir); err != nil {
		t.Error(err)
	}
	key := filepath.Join(dir, "ssh_host_ed25519_key")
	for path, mode := range map[string]os.FileMode{key: 0o640, dir: 0o755} {
		before, _ := os.Stat(path)
		_ = os.Chmod(path, mode)
		if err := keysAreKept(dir); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s with mode %o: %v", path, mode, err)
		}
		_ = os.Chmod(path, before.Mode())
	}
}
