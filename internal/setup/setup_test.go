package setup

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"slipway/internal/config"
	"slipway/internal/errs"
)

func TestWrite(t *testing.T) {
	f := Below(filepath.Join(t.TempDir(), "etc", "slipway.yaml"), "")
	site := Default()
	site.Admins = []string{"alice", `b"ob`}
	if err := Write(f, site); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(f.Config)
	if err != nil {
		t.Fatal(err)
	}
	h := c.Hubs[0]
	if h.APIURL != site.HubAPI || !slices.Equal(h.AdminUsers, site.Admins) || c.Images[0].Ref != site.Image {
		t.Errorf("%+v", c)
	}
	for path, mode := range map[string]os.FileMode{
		f.Config: 0o600, f.SpawnerToken: 0o600, f.ServiceToken: 0o600, f.Hub: 0o644,
		filepath.Dir(f.Config): 0o700 | os.ModeDir,
	} {
		if info, err := os.Stat(path); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	hub, err := os.ReadFile(f.Hub)
	if err != nil || !strings.Contains(string(hub), "SPAWNER_TOKEN = Path(\""+f.SpawnerToken+"\")") {
		t.Errorf("%v, %s", err, hub)
	}
	if err := Write(f, site); !errs.Is(err, errs.Conflict) {
		t.Errorf("a second time: %v", err)
	}
}

// TestTokensAreKept: a Hub that has them goes on with them.
func TestTokensAreKept(t *testing.T) {
	f := Below(filepath.Join(t.TempDir(), "slipway.yaml"), "")
	if err := os.WriteFile(f.SpawnerToken, []byte(strings.Repeat("s", 40)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Write(f, Default()); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(f.SpawnerToken); err != nil || string(text) != strings.Repeat("s", 40) {
		t.Errorf("%s, %v", text, err)
	}
}

// TestAMistakeLeavesNoConfiguration: what the check refuses is not written.
func TestAMistakeLeavesNoConfiguration(t *testing.T) {
	f := Below(filepath.Join(t.TempDir(), "slipway.yaml"), "")
	site := Default()
	site.HubAPI = "hub.example.org"
	err := Write(f, site)
	if err == nil || !strings.Contains(err.Error(), "api_url") {
		t.Errorf("%v", err)
	}
	for _, path := range []string{f.Config, f.Hub} {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s was written", path)
		}
	}
}

// TestHubUser: what the Hub reads is its user's, and the service's configuration names the same two tokens.
func TestHubUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: it gives files to another user")
	}
	f := Below(filepath.Join(t.TempDir(), "slipway", "slipway.yaml"), "nobody")
	if err := Write(f, Default()); err != nil {
		t.Fatal(err)
	}
	nobody, err := ownerOf("nobody")
	if err != nil {
		t.Fatal(err)
	}
	for path, by := range map[string]int{
		f.Config: 0, filepath.Dir(f.Config): 0,
		f.SpawnerToken: nobody.uid, f.ServiceToken: nobody.uid, f.Hub: nobody.uid, filepath.Dir(f.Hub): nobody.uid,
	} {
		if info, err := os.Stat(path); err != nil || int(info.Sys().(*syscall.Stat_t).Uid) != by {
			t.Errorf("%s: %v, %v, want the owner %d", path, info, err, by)
		}
	}
	c, err := config.Load(f.Config)
	if err != nil || c.Hubs[0].TokenFile != f.ServiceToken {
		t.Errorf("%+v, %v", c.Hubs, err)
	}
	nowhere := Below(filepath.Join(t.TempDir(), "slipway", "slipway.yaml"), "no-such-user")
	if err := Write(nowhere, Default()); !errs.Is(err, errs.Invalid) {
		t.Errorf("a user that is not there: %v", err)
	}
}

func TestAddress(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		site Site
		want string
	}{
		{Site{Listen: "127.0.0.1:8090"}, "http://127.0.0.1:8090"},
		{Site{Listen: "gpu.example.org:8090", TLSCert: "/c.pem"}, "https://gpu.example.org:8090"},
		{Site{Listen: "0.0.0.0:8090"}, "http://" + host + ":8090"},
		{Site{Listen: "[::]:8090"}, "http://" + host + ":8090"},
		{Site{Listen: ":8090"}, "http://" + host + ":8090"},
	} {
		if got, err := tc.site.Address(); err != nil || got != tc.want {
			t.Errorf("%+v: %q, %v, want %q", tc.site, got, err, tc.want)
		}
	}
}
