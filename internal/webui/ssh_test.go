package webui

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"slipway/hubapi"
	"slipway/internal/devicelogin"
)

// TestPaste has a shell carry out, twice, what users of macOS and Linux paste: what she has stays, behind one line.
func TestPaste(t *testing.T) {
	b := sshBody{SSHView: SSHView{Config: "Host slipway\n  User al$(id)ice\n", KnownHosts: "@cert-authority [hub.test]:2222 ssh-ed25519 AAAA"}}
	for name, before := range map[string]string{"nothing": "", "hers": "Host other\n  User x\n"} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			file := func(name string) string { return filepath.Join(home, ".ssh", name) }
			if before != "" {
				if err := os.Mkdir(filepath.Join(home, ".ssh"), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file("dotfile"), []byte(before), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink("dotfile", file("config")); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				c := exec.CommandContext(t.Context(), "/bin/sh")
				c.Stdin, c.Env = strings.NewReader(b.Unix()), []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
				if out, err := c.CombinedOutput(); err != nil || len(out) > 0 {
					t.Fatalf("%s, %v", out, err)
				}
			}
			for name, want := range map[string]string{
				"config": pasteInclude + "\n\n" + before, "config.d/slipway-page.conf": b.Config, "known_hosts": b.KnownHosts + "\n",
			} {
				got, err := os.ReadFile(file(name))
				if err != nil || string(got) != want {
					t.Errorf("%s: %q, %v", name, got, err)
				}
				if info, err := os.Stat(file(name)); err != nil || info.Mode().Perm() != 0o600 {
					t.Errorf("%s: %v, %v", name, info, err)
				}
			}
			if info, err := os.Stat(file(".")); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("%v, %v", info, err)
			}
		})
	}
	if w := b.Windows(); !strings.Contains(w, "\n'@ +") || !strings.Contains(w, b.Config) || !strings.Contains(w, b.KnownHosts) {
		t.Errorf("%s", w)
	}
}

func TestSSHWords(t *testing.T) {
	for session, want := range map[string]string{hubapi.AnySession: "all sessions", "": "the default server alone", "gpu10": "the server gpu10 alone"} {
		if got := (sshBody{}).Session(hubapi.SSHCertificate{Session: session}); got != want {
			t.Errorf("%q: %q", session, got)
		}
	}
	for address, want := range map[string]string{"192.0.2.7": "192.0.2.7", "127.0.0.1": "this server itself (127.0.0.1), or a forward or proxy on it"} {
		if got := (DeviceAsk{devicelogin.Waiting{Ask: devicelogin.Ask{Address: netip.MustParseAddr(address)}}}).From(); got != want {
			t.Errorf("%s: %q", address, got)
		}
	}
	if got := (DeviceAsk{}).From(); !strings.HasPrefix(got, "not known") {
		t.Errorf("%q", got)
	}
}
