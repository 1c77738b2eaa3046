package xrdtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestWhereTheClientLooks: what a workload's environment may name to XRootD's client, and what must be there then. All
// of it has a token.
func TestWhereTheClientLooks(t *testing.T) {
	trust := NewTrust(t)
	origin := trust.TokenOrigin()
	origin.Put("alice/file", "hers")
	dir := directory(t)
	for _, name := range []string{"token", "bt_u0"} {
		Write(t, filepath.Join(dir, name), trust.Token("alice", "storage.read:/alice", time.Hour), 0o600)
	}
	pair, err := os.ReadFile(trust.cert)
	key, err2 := os.ReadFile(trust.key)
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	Write(t, filepath.Join(dir, "pair"), string(pair)+string(key), 0o600)
	token := "BEARER_TOKEN_FILE=" + filepath.Join(dir, "token")
	for _, c := range []struct {
		name  string
		env   []string
		usual string // what the usual place of a proxy leads to
		words string
	}{
		{"no proxy", []string{token}, "", ""},
		{"a proxy by name", []string{token, "X509_USER_PROXY=" + filepath.Join(dir, "pair")}, "", ""},
		{"a proxy by the usual place", []string{token}, filepath.Join(dir, "pair"), ""},
		{"a link that leads nowhere", []string{token}, "/nonexistent", ""},
		{"a proxy by name that is not there", []string{token, "X509_USER_PROXY=/nonexistent"}, "", "TLS error"}, // so the agent names none
		{"a token by name that is not there", []string{"BEARER_TOKEN_FILE=/nonexistent"}, "", "Auth failed"},
		{"and another elsewhere", []string{"BEARER_TOKEN_FILE=/nonexistent", "XDG_RUNTIME_DIR=" + dir}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			const script = `mount -t tmpfs tmpfs /tmp && { [ -z "$0" ] || ln -s "$0" /tmp/x509up_u0; } && exec xrdcp --nopbar --force "$1" /tmp/got`
			run := exec.CommandContext(t.Context(), "unshare", "--mount", "sh", "-c", script, c.usual, origin.URL+"//data/alice/file")
			run.Env = append(trust.Env(), append(c.env, "PATH="+os.Getenv("PATH"), "HOME=/nonexistent", "XRD_CONNECTIONRETRY=1", "XRD_CONNECTIONWINDOW=5", "XRD_STREAMERRORWINDOW=0")...)
			out, err := run.CombinedOutput()
			if c.words == "" && err != nil || c.words != "" && (err == nil || !strings.Contains(string(out), c.words)) {
				t.Errorf("want %q, have %v: %s", c.words, err, out)
			}
		})
	}
}
