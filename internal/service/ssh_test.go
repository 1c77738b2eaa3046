package service

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway/hubapi/hub"
	"slipway/hubapi/server/hubs"
	"slipway/internal/config"
	"slipway/internal/devicelogin"
	"slipway/internal/secret"
	"slipway/internal/sshauth"
	"slipway/internal/sshgate"
	"slipway/internal/store"
	"slipway/internal/testenv"
)

func TestKnownAt(t *testing.T) {
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/users/alice") && r.URL.Path != "/hub/api/user" {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = io.WriteString(w, `{"kind": "service", "name": "slipway", "scopes": ["read:users:name"]}`)
	}))
	defer h.Close()
	at, _ := url.Parse(h.URL + "/hub/api")
	client := hub.New(hub.Config{APIURL: at, Service: "slipway", Token: secret.New(strings.Repeat("t", 30))})
	s := &service{sshKeys: newAuthority(t, devicelogin.New(nil)), hubs: []hubPart{
		{cfg: config.Hub{Name: "main"}, client: client, server: hubs.Hub{Activity: true}},
		{cfg: config.Hub{Name: "silent"}},
	}}
	const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEXwuWTIVNeELOVsIJLRe4Zbl1BvMPLyTOaSaqLnw1Rn"
	for _, o := range []sshauth.Owner{{Hub: "main", User: "alice"}, {Hub: "main", User: "bob"}, {Hub: "silent", User: "bob"}, {Hub: "gone", User: "alice"}} {
		if _, err := s.sshKeys.AddKey(t.Context(), o, key, ""); err != nil {
			t.Fatal(err)
		}
	}
	for o, want := range map[sshgate.Owner]bool{
		{Hub: "main", User: "alice"}: true, {Hub: "main", User: "bob"}: false, {Hub: "silent", User: "bob"}: true,
		{Hub: "gone", User: "alice"}: false,
	} {
		if known, err := s.knownAt(t.Context(), o); known != want || err != nil {
			t.Errorf("%+v: %v, %v", o, known, err)
		}
		if keys := s.sshKeys.Keys(o); len(keys) != 1 {
			t.Errorf("%+v, who was asked for once, has the keys %v", o, keys)
		}
	}
}

// newAuthority returns one whose users confirm these logins.
func newAuthority(t *testing.T, logins *devicelogin.Logins) *sshauth.Authority {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	db, err := store.Open(t.Context(), t.TempDir()+"/records/s.db", log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	a, err := sshauth.New(t.Context(), sshauth.Config{
		Store: db, Dir: t.TempDir() + "/ssh", Host: "hub.example.org", Port: 2222, Logger: log,
		Logins: logins,
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestGatekeeperBrowser: the code that ssh shows lets in whoever confirms it, and nobody before.
func TestGatekeeperBrowser(t *testing.T) {
	logins := devicelogin.New([]devicelogin.Page{
		{Hub: "main", URL: "https://hub.example.org/services/slipway/login"},
		{Hub: "school", URL: "https://school/login"},
	})
	a := newAuthority(t, logins)
	prompt, err := gatekeeper{a}.Browser(t.Context(), "alice+gpu", netip.MustParseAddr("192.0.2.1"))
	if err != nil || !strings.Contains(prompt.Words, "https://hub.example.org/services/slipway/login for your sessions at main\n") || time.Until(prompt.Until) < time.Minute {
		t.Fatalf("%+v, %v", prompt, err)
	}
	lines := strings.Fields(prompt.Words)
	code, owner := lines[len(lines)-1], sshauth.Owner{Hub: "main", User: "alice"}
	if _, err := logins.Find(owner, code); err != nil {
		t.Fatalf("%q: %v", code, err)
	}
	if _, err := logins.Decide(owner, code, true); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Hang)
	defer cancel()
	if pass, err := prompt.Await(ctx); err != nil || pass.Owner != owner || pass.Session != sshauth.AnySession {
		t.Errorf("%+v, %v", pass, err)
	}
}

func TestSSHHubs(t *testing.T) {
	s := &service{
		cfg:    config.Config{Hubs: []config.Hub{{Name: "main"}, {Name: "school"}}},
		realms: realms{"main": "site", "school": "school", "gone": "x"},
	}
	if got := s.sshHubs(); !slices.Equal(got, []sshauth.Hub{{Name: "main", Realm: "site"}, {Name: "school", Realm: "school"}}) {
		t.Errorf("%+v", got)
	}
	if got := pageWords([]devicelogin.Page{{Hub: "main", URL: "https://x"}}); got != "https://x" {
		t.Error(got)
	}
}

func TestUserAddress(t *testing.T) {
	tls := config.TLS{Cert: "c", Key: "k"}
	for _, tt := range []struct {
		listen, hub, host, uplink, ca string
		tls                           config.TLS
		want                          string
	}{
		{"127.0.0.1:8090", "", "127.0.0.1", "", "", config.TLS{}, "http://127.0.0.1:8090"},
		{"127.0.0.1:8090", "", "hub.example.org", "", "", tls, ""},
		{"127.0.0.1:8090", "", "hub.example.org", "https://slipway.example.org", "", tls, "https://slipway.example.org"},
		{":8090", "", "hub.example.org", "", "", tls, "https://hub.example.org:8090"},
		{":8090", "", "hub.example.org", "", "", config.TLS{}, ""},
		{"127.0.0.1:8090", "", "127.0.0.1", "https://192.0.2.1:8443", "ca.pem", config.TLS{}, "http://127.0.0.1:8090"},
		{"127.0.0.1:8090", "", "hub.example.org", "https://192.0.2.1:8443", "ca.pem", tls, ""},
		{":8090", "", "hub.example.org", "https://192.0.2.1:8443", "ca.pem", tls, "https://hub.example.org:8090"},
		{":8090", ":8091", "hub.example.org", "https://slipway.example.org", "", tls, "https://hub.example.org:8091"},
	} {
		cfg := config.Config{
			Listen: tt.listen, TLS: tt.tls, SSH: config.SSH{Host: tt.host},
			Uplink: config.Uplink{URL: tt.uplink, CAFile: tt.ca},
		}
		if got := userAddress(cfg, config.Hub{Listen: tt.hub}); got != tt.want {
			t.Errorf("%+v: %q", tt, got)
		}
	}
}
