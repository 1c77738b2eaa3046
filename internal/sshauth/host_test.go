package sshauth

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

func TestFilesAreMadeAndKept(t *testing.T) {
	cfg := configOf(t, newMemory())
	if err := os.Remove(filepath.Join(cfg.Dir, "ssh_host_ed25519_key")); err != nil { // as a service that was killed has left it
		t.Fatal(err)
	}
	a := opened(t, cfg)
	for _, f := range keyFiles() {
		if info, err := os.Stat(filepath.Join(cfg.Dir, f.name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", f.name, info, err)
		}
	}
	left, err := os.ReadDir(cfg.Dir)
	if err != nil || len(left) != len(keyFiles()) {
		t.Errorf("%v, %v", left, err)
	}
	b := opened(t, cfg)
	if strings.Join(a.KnownHosts(), "\n") != strings.Join(b.KnownHosts(), "\n") {
		t.Errorf("other keys after a restart: %q, then %q", a.KnownHosts(), b.KnownHosts())
	}
}

func TestDamagedFilesAreRefused(t *testing.T) {
	all, err := files()
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		file string
		text []byte
		mode os.FileMode
		says string
	}{
		"cut":            {"ssh_host_rsa_key", all["ssh_host_rsa_key"][:500], 0o600, "damaged"},
		"empty":          {userAuthority, nil, 0o600, "damaged"},
		"another type's": {"ssh_host_ecdsa_key", all["ssh_host_ed25519_key"], 0o600, "damaged"},
		"readable":       {hostAuthority, all[hostAuthority], 0o644, "chmod 600"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := configOf(t, newMemory())
			path := filepath.Join(cfg.Dir, tc.file)
			if err := os.WriteFile(path, tc.text, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, tc.mode); err != nil {
				t.Fatal(err)
			}
			_, err := New(t.Context(), cfg)
			if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), tc.says) || strings.Contains(err.Error(), "BEGIN") {
				t.Errorf("%v", err)
			}
			if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, tc.text) {
				t.Errorf("it was written: %v", err)
			}
		})
	}
	cfg := configOf(t, newMemory())
	if err := os.Chmod(cfg.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := New(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "chmod 700") {
		t.Errorf("an open directory: %v", err)
	}
}

// TestHostKeys has a client that knows the authority alone connect, with each type of host key.
func TestHostKeys(t *testing.T) {
	a := authority(t)
	_, _, authorityKey, _, _, err := ssh.ParseKnownHosts([]byte(a.KnownHosts()[0]))
	if err != nil || !strings.HasPrefix(a.KnownHosts()[0], "@cert-authority [hub.example.org]:2222 ssh-ed25519 ") {
		t.Fatalf("%q, %v", a.KnownHosts(), err)
	}
	checker := ssh.CertChecker{IsHostAuthority: func(key ssh.PublicKey, _ string) bool { return bytes.Equal(key.Marshal(), authorityKey.Marshal()) }}
	for _, algorithm := range []string{ssh.CertAlgoED25519v01, ssh.CertAlgoECDSA256v01, ssh.CertAlgoRSASHA512v01} {
		if err := shake(t, a, algorithm, checker.CheckHostKey, "hub.example.org:2222"); err != nil {
			t.Errorf("%s: %v", algorithm, err)
		}
		if err := shake(t, a, algorithm, checker.CheckHostKey, "other.example.org:2222"); err == nil || !strings.Contains(err.Error(), "principal") {
			t.Errorf("%s for another host: %v", algorithm, err)
		}
	}
	plainKey := func(_ string, _ net.Addr, key ssh.PublicKey) error {
		if !strings.Contains(strings.Join(a.Fingerprints(), " "), ssh.FingerprintSHA256(key)) {
			t.Errorf("%s is not among %q", ssh.FingerprintSHA256(key), a.Fingerprints())
		}
		return nil
	}
	for _, algorithm := range []string{ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoRSASHA256} {
		if err := shake(t, a, algorithm, plainKey, "hub.example.org:2222"); err != nil {
			t.Errorf("%s: %v", algorithm, err)
		}
	}
	if err := shake(t, a, ssh.KeyAlgoRSA, plainKey, "hub.example.org:2222"); err == nil {
		t.Error("it signs with SHA-1")
	}
}

// shake lets a client and a server with a's host keys meet.
func shake(t *testing.T, a *Authority, algorithm string, check ssh.HostKeyCallback, host string) error {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		cfg := &ssh.ServerConfig{NoClientAuth: true}
		for _, k := range a.HostKeys() {
			cfg.AddHostKey(k)
		}
		if conn, _, _, err := ssh.NewServerConn(c, cfg); err == nil {
			conn.Close()
		}
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _, _, err = ssh.NewClientConn(c, host, &ssh.ClientConfig{User: "x", HostKeyCallback: check, HostKeyAlgorithms: []string{algorithm}})
	c.Close()
	<-done
	return err
}

func TestLine(t *testing.T) {
	cfg := configOf(t, newMemory())
	a := opened(t, cfg)
	cfg.Port = 22
	usual := opened(t, cfg)
	for _, tc := range []struct {
		a            *Authority
		user, server string
		want         string
	}{
		{a, "alice", "", "ssh -p 2222 alice@hub.example.org"},
		{usual, "alice", "gpu10", "ssh alice+gpu10@hub.example.org"},
		{usual, "alice@cern.ch", "my work", "ssh 'alice@cern.ch+my work@hub.example.org'"},
		{a, "-oProxyCommand=x", "", ""},
		{a, "al$(id)ice", "", ""},
		{a, "alice", "x'; rm -rf ~", ""},
		{a, "alice", "x\ny", ""},
		{a, "alice", "x -o", ""},
		{a, "", "x", ""},
	} {
		if got := tc.a.Line(tc.user, tc.server); got != tc.want {
			t.Errorf("%q %q: %q", tc.user, tc.server, got)
		}
	}
	if first := usual.KnownHosts()[1]; !strings.HasPrefix(first, "hub.example.org ssh-ed25519 ") {
		t.Errorf("%s", first)
	}
}
