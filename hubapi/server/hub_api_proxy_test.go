package server

import (
	"bufio"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"slipway/hubapi/server/hubs"
	"slipway/hubapi/server/web"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// agentServer serves h as if each connection came through the agent of id, and gives its address.
func agentServer(t *testing.T, h http.Handler, id string) string {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	srv.Listener = agentListener{srv.Listener, id}
	srv.Config.ConnContext = web.ConnContext
	srv.Start()
	t.Cleanup(srv.Close)
	return srv.Listener.Addr().String()
}

// raw sends a request as it stands and gives the answer's status and body.
func raw(t *testing.T, addr, request string) (int, string) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

func TestHubDoor(t *testing.T) {
	var seen []string
	fakeHub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.RequestURI)
		fmt.Fprintf(w, "hub %s %s auth=%s host=%t", r.Method, r.RequestURI, r.Header.Get("Authorization"), strings.HasPrefix(r.Host, "127.0.0.1:"))
	}))
	defer fakeHub.Close()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("another target was reached") }))
	defer elsewhere.Close()
	other := elsewhere.Listener.Addr().String()
	h := start(t, newFake(lab("s-alice", "alice", "/user/alice/")), func(cfg *Config) {
		cfg.Hubs[0].APIURL, _ = url.Parse(fakeHub.URL + "/jh/hub/api")
	})
	addr := agentServer(t, h.AgentHub(), "s-alice")
	for _, tc := range []struct {
		line, host string
		ok         bool
	}{
		{"POST /jh/hub/api/users/has%40/activity", "hub", true},
		{"GET /jh/hub/api/oauth2/authorize?x=%2e%2e", "hub", true},
		{"GET /jh/hub/api/user", other, true}, // the host header chooses nothing
		{"GET /jh/hub/api//user", "hub", true},
		{"GET /jh/hub/api", "hub", true}, // a server asks its Hub's version there
		{"GET /jh/hub/apix/user", "hub", false},
		{"GET /jh/hub/login", "hub", false},
		{"GET /", "hub", false},
		{"GET /jh/hub/api/../login", "hub", false},
		{"GET /jh/hub/api/%2e%2e/login", "hub", false},
		{"GET /jh/hub/api/%2E./login", "hub", false},
		{"GET /jh/hub/api/x%2f..%2f..%2flogin", "hub", false},
		{"GET /jh/hub/api/%252e%252e/login", "hub", false},
		{"GET /jh/hub/api/..%5clogin", "hub", false},
		{"GET /jh/h%75b/api/user", "hub", false},
		{"GET http://" + other + "/jh/hub/api/user", other, false},
		{"GET http://" + other + "/", other, false},
		{"CONNECT " + other, other, false},
	} {
		status, body := raw(t, addr, tc.line+" HTTP/1.1\r\nHost: "+tc.host+"\r\nAuthorization: token its-own\r\nContent-Length: 0\r\n\r\n")
		if tc.ok && (status != 200 || !strings.HasPrefix(body, "hub "+tc.line+" auth=token its-own host=true")) {
			t.Errorf("%s: %d %s", tc.line, status, body)
		}
		if !tc.ok && status != http.StatusForbidden {
			t.Errorf("%s: %d %s, want 403", tc.line, status, body)
		}
	}
	if len(seen) != 5 {
		t.Errorf("the Hub was asked for %q", seen)
	}
	if status, _ := raw(t, addr, "GET /jh/hub/api/user HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"); status != 403 {
		t.Errorf("an upgrade: %d", status)
	}
}

func TestHubDoorKnowsOnlyWorkloads(t *testing.T) {
	h := start(t, newFake(), nil)
	for _, id := range []string{"", "s-unknown"} {
		if status, body := raw(t, agentServer(t, h.AgentHub(), id), "GET /hub/api/user HTTP/1.1\r\nHost: h\r\n\r\n"); status != 401 {
			t.Errorf("%q: %d %s", id, status, body)
		}
	}
}

func TestHubDoorWhenTheHubIsDown(t *testing.T) {
	h := start(t, newFake(lab("s-alice", "alice", "/user/alice/")), nil)
	if status, body := raw(t, agentServer(t, h.AgentHub(), "s-alice"), "GET /hub/api/user HTTP/1.1\r\nHost: h\r\n\r\n"); status != 503 || !strings.Contains(body, "the Hub does not answer") {
		t.Errorf("%d %s", status, body)
	}
}

// TestHubDoorChecksTheHubsCertificate: by the authorities of its own hub, and by no others.
func TestHubDoorChecksTheHubsCertificate(t *testing.T) {
	fakeHub := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Header.Get("Authorization")) }))
	defer fakeHub.Close()
	fakeHub.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	alice, bob := lab("s-alice", "alice", "/user/alice/"), lab("s-bob", "bob", "/user/bob/")
	bob.Hub = "other"
	h := start(t, newFake(alice, bob), func(cfg *Config) {
		cfg.Hubs[0].APIURL, _ = url.Parse(fakeHub.URL + "/hub/api")
		cfg.Hubs = append(cfg.Hubs, hubs.Hub{Name: "other", APIURL: cfg.Hubs[0].APIURL})
		cfg.Hubs[0].CA = x509.NewCertPool()
		cfg.Hubs[0].CA.AddCert(fakeHub.Certificate())
	})
	request := "GET /hub/api/user HTTP/1.1\r\nHost: h\r\nAuthorization: token its-own\r\n\r\n"
	if status, body := raw(t, agentServer(t, h.AgentHub(), "s-alice"), request); status != 200 || body != "token its-own" {
		t.Errorf("a certificate of the hub's authorities: %d %s", status, body)
	}
	if status, body := raw(t, agentServer(t, h.AgentHub(), "s-bob"), request); status != 503 || strings.Contains(body, "its-own") {
		t.Errorf("a certificate of nobody's: %d %s", status, body)
	}
}
