package sshclientconfig

import (
	"crypto/ed25519"
	"encoding/pem"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"

	"slipway/internal/errs"
	"slipway/internal/testenv"
)

// ourHost is an example of a service's host key.
func ourHost(t *testing.T) string {
	key, err := ssh.NewPublicKey(ed25519.PublicKey(make([]byte, ed25519.PublicKeySize)))
	if err != nil {
		t.Fatal(err)
	}
	return "@cert-authority [hub.example.org]:2222 " + strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

func exampleService(t *testing.T) Service {
	return Service{
		Name: "slipway", Address: "https://hub.example.org/slipway", Host: "hub.example.org", Port: 2222, User: "alice",
		Targets: []string{"gpu10", "two words", "x;y", "-o"}, KnownHosts: []string{ourHost(t)},
	}
}

func mustKeep(t *testing.T, f *Files, s Service) Included {
	t.Helper()
	in, err := f.Keep(s, exampleCredential(t))
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// exampleCredential is the same in every call, but for the bytes by which ssh checks a private key.
func exampleCredential(t *testing.T) Credential {
	t.Helper()
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cert := &ssh.Certificate{Key: signer.PublicKey(), CertType: ssh.UserCert, ValidPrincipals: []string{"alice"}, ValidBefore: 1795348800}
	if err := cert.SignCert(zeros{}, signer); err != nil {
		t.Fatal(err)
	}
	return Credential{Key: pem.EncodeToMemory(block), Certificate: string(ssh.MarshalAuthorizedKey(cert))}
}

// zeros are random numbers that are not.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// tree returns all that is below dir: modes, and what is in plain files.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := ""
		if info.Mode().IsRegular() {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text = " " + string(b)
		}
		out[strings.TrimPrefix(path, dir)] = info.Mode().String() + text
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func put(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func TestKeepAndRemove(t *testing.T) {
	for name, before := range map[string]func(*testing.T, string){
		"empty home":        func(*testing.T, string) {},
		"no config":         func(t *testing.T, home string) { put(t, home+"/.ssh/id_ed25519", "mine", 0o400) },
		"config":            func(t *testing.T, home string) { put(t, home+"/.ssh/config", "Host a\r\n  User b", 0o644) },
		"empty config":      func(t *testing.T, home string) { put(t, home+"/.ssh/config", "", 0o600) },
		"config.d of hers":  func(t *testing.T, home string) { put(t, home+"/.ssh/config.d/work.conf", "Host w\n", 0o600) },
		"included already":  func(t *testing.T, home string) { put(t, home+"/.ssh/config", "Include config.d/*\nHost a\n", 0o600) },
		"config.d is empty": func(t *testing.T, home string) { _ = os.MkdirAll(home+"/.ssh/config.d", 0o755) },
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			before(t, home)
			was := tree(t, home)
			f := New(Config{Home: home})
			if in := mustKeep(t, f, exampleService(t)); in.Line != "" {
				t.Errorf("it asks for help: %+v", in)
			}
			now := tree(t, home)
			mustKeep(t, f, exampleService(t))
			again := tree(t, home)
			again["/.ssh/slipway/slipway"] = now["/.ssh/slipway/slipway"]
			if diff := cmp.Diff(now, again); diff != "" {
				t.Errorf("the second login changes what the first wrote: %s", diff)
			}
			for path, want := range map[string]string{"/.ssh/slipway": "drwx------", "/.ssh/slipway/slipway": "-rw------- -----BEGIN OPENSSH PRIVATE KEY-----\n"} {
				if !strings.HasPrefix(now[path], want) {
					t.Errorf("%s is %q, want %q", path, now[path], want)
				}
			}
			if until, err := f.Expires("slipway"); err != nil || until.Unix() != 1795348800 {
				t.Errorf("it expires %s, %v", until, err)
			}
			if _, err := f.Remove("slipway"); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(was, tree(t, home)); diff != "" {
				t.Errorf("after logout: %s", diff)
			}
		})
	}
}

func TestFilesThatAreLeftAlone(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*testing.T, string)
		why    string
	}{
		"link": {func(t *testing.T, home string) {
			put(t, home+"/dotfiles/config", "Host a\n", 0o644)
			_ = os.Mkdir(home+"/.ssh", 0o700)
			if err := os.Symlink("../dotfiles/config", home+"/.ssh/config"); err != nil {
				t.Fatal(err)
			}
		}, "symbolic link"},
		"read-only": {func(t *testing.T, home string) { put(t, home+"/.ssh/config", "Host a\n", 0o444) }, "read-only"},
		"UTF-16":    {func(t *testing.T, home string) { put(t, home+"/.ssh/config", "H\x00o\x00", 0o644) }, "no text"},
		"directory": {func(_ *testing.T, home string) { _ = os.MkdirAll(home+"/.ssh/config", 0o700) }, "is a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			c.before(t, home)
			was := tree(t, home)
			f := New(Config{Home: home})
			in := mustKeep(t, f, exampleService(t))
			if in.Line != "Include config.d/slipway.conf" || !strings.Contains(in.Why, c.why) {
				t.Errorf("got %+v", in)
			}
			if now := tree(t, home); now["/.ssh/config"] != was["/.ssh/config"] {
				t.Errorf("it was changed: %s", now["/.ssh/config"])
			}
			if name == "directory" {
				return // nothing that ssh could read, and so nothing to log out of
			}
			if _, err := f.Remove("slipway"); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(was, tree(t, home)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSeveralServices(t *testing.T) {
	home := t.TempDir()
	f := New(Config{Home: home})
	one, two := exampleService(t), exampleService(t)
	two.Name, two.Address = "cern", "https://other.example.org"
	mustKeep(t, f, one)
	mustKeep(t, f, two)
	taken := two
	taken.Name = "slipway"
	if _, err := f.Keep(taken, exampleCredential(t)); !errs.Is(err, errs.Conflict) {
		t.Errorf("another service took the name: %v", err)
	}
	if _, err := f.Remove("slipway"); err != nil {
		t.Fatal(err)
	}
	left, err := f.Services()
	if err != nil || len(left) != 1 || left[0].Name != "cern" {
		t.Errorf("left are %+v, %v", left, err)
	}
	if text := tree(t, home)["/.ssh/config.d/slipway.conf"]; strings.Contains(text, "Host slipway") || !strings.Contains(text, "Host cern-gpu10\n") {
		t.Errorf("the hosts are %s", text)
	}
	if _, err := f.Remove("slipway"); !errs.Is(err, errs.NotFound) {
		t.Errorf("removed twice: %v", err)
	}
}

// TestHostileService has a service say what would be obeyed as something else in a file of ssh.
func TestHostileService(t *testing.T) {
	for field, spoil := range map[string]func(*Service){
		"host":     func(s *Service) { s.Host = "a\n  ProxyCommand id" },
		"option":   func(s *Service) { s.Host = "-oProxyCommand=id" },
		"user":     func(s *Service) { s.User = "alice\nProxyCommand id" },
		"token":    func(s *Service) { s.User = "%u" },
		"port":     func(s *Service) { s.Port = 0 },
		"name":     func(s *Service) { s.Name = "../id" },
		"address":  func(s *Service) { s.Address = "x\nHost *" },
		"no keys":  func(s *Service) { s.KnownHosts = nil },
		"two keys": func(s *Service) { s.KnownHosts[0] += "\n" + s.KnownHosts[0] },
		"no key":   func(s *Service) { s.KnownHosts[0] = "nonsense" },
		"revoked":  func(s *Service) { s.KnownHosts[0] = strings.Replace(s.KnownHosts[0], "cert-authority", "revoked", 1) },
	} {
		home := t.TempDir()
		s := exampleService(t)
		spoil(&s)
		if _, err := New(Config{Home: home}).Keep(s, exampleCredential(t)); !errs.Is(err, errs.Invalid) {
			t.Errorf("%s: %v", field, err)
		}
		if left := tree(t, home); len(left) != 1 {
			t.Errorf("%s: it has left %v", field, left)
		}
	}
}

func TestCertificateOfAnotherKey(t *testing.T) {
	key, _, err := NewKey("")
	if err != nil {
		t.Fatal(err)
	}
	c, home := exampleCredential(t), t.TempDir()
	for _, bad := range []Credential{{Key: key, Certificate: c.Certificate}, {Key: c.Key, Certificate: ourHost(t)}, {Key: c.Key}} {
		if _, err := New(Config{Home: home}).Keep(exampleService(t), bad); !errs.Is(err, errs.Invalid) {
			t.Error(err)
		}
	}
	if left := tree(t, home); len(left) != 1 {
		t.Errorf("it has left %v", left)
	}
}

func TestForeignFileOfHosts(t *testing.T) {
	home := t.TempDir()
	put(t, home+"/.ssh/config.d/slipway.conf", "Host mine\n", 0o600)
	was := tree(t, home)
	if _, err := New(Config{Home: home}).Keep(exampleService(t), exampleCredential(t)); !errs.Is(err, errs.Conflict) {
		t.Error(err)
	}
	if diff := cmp.Diff(was, tree(t, home)); diff != "" {
		t.Error(diff)
	}
}

// TestAsSSHReadsIt asks OpenSSH what it makes of the files.
func TestAsSSHReadsIt(t *testing.T) {
	testenv.Need(t, testenv.OpenSSH)
	home := filepath.Join(t.TempDir(), "alice b 5%") // a blank, and a character that means something to ssh
	put(t, home+"/.ssh/config", "Host *\n  User nobody\n  Compression yes\n", 0o600)
	f := New(Config{Home: home, Foreign: true})
	mustKeep(t, f, exampleService(t))
	for alias, user := range map[string]string{"slipway": "alice", "slipway-gpu10": "alice+gpu10", "elsewhere": "nobody"} {
		out, err := exec.CommandContext(t.Context(), "ssh", "-G", "-F", f.config(), alias).Output()
		if err != nil {
			t.Fatal(err)
		}
		have := map[string]string{}
		for line := range strings.Lines(string(out)) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			have[key] = value
		}
		want := map[string]string{"user": user, "compression": "yes"}
		if alias != "elsewhere" {
			path := strings.ReplaceAll(f.Key("slipway"), "%", "%%")
			want = map[string]string{
				"user": user, "compression": "yes", "hostname": "hub.example.org", "port": "2222", "identitiesonly": "yes", "connecttimeout": "0",
				"identityfile": path, "certificatefile": path + "-cert.pub", "userknownhostsfile": f.KnownHosts("slipway"),
				"serveraliveinterval": "10", "serveralivecountmax": "3",
			}
		}
		for key, value := range want {
			if have[key] != value {
				t.Errorf("%s: %s is %q, want %q", alias, key, have[key], value)
			}
		}
	}
}
