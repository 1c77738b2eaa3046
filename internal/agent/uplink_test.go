package agent

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/tunnel"
)

// TestRemoteAgent: an agent with an uplink's file dials the service that it names, with the credential that is in the
// file then, and is told what to do as any other.
func TestRemoteAgent(t *testing.T) {
	cfg := configIn(t.TempDir())
	cfg.LastDir, cfg.UplinkFile = filepath.Join(cfg.WorkDir, "../last"), filepath.Join(cfg.WorkDir, "../uplink.json")
	links := tunnel.New(tunnel.Config{Logger: cfg.Logger})
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- links.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-served })
	if err := links.Expect(workload); err != nil {
		t.Fatal(err)
	}
	stale := make(chan struct{}, 64)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer fresh" {
			stale <- struct{}{}
			w.WriteHeader(http.StatusServiceUnavailable)
		} else if err := links.Upgrade(w, r, workload); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(service.Close)
	writeUplink(t, cfg.UplinkFile, service.URL, "stale")
	done := make(chan error, 1)
	go func() { done <- Run(ctx, cfg) }()
	<-stale
	writeUplink(t, cfg.UplinkFile, service.URL, "fresh")
	wait, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	if err := links.Wait(wait, workload); err != nil {
		t.Fatal(err)
	}
	client := control.Client{Dial: func(ctx context.Context) (net.Conn, error) { return links.Dial(ctx, workload, tunnel.DoorControl) }}
	if err := client.Launch(t.Context(), control.App{Launch: "l1", Argv: []string{"true"}}); err != nil {
		t.Error(err)
	}
	if err := client.End(t.Context()); err != nil {
		t.Error(err)
	}
	err := <-done
	if _, ended := errors.AsType[*ExitError](err); err != nil && !ended {
		t.Error(err)
	}
}

// writeUplink puts a new uplink in place at once.
func writeUplink(t *testing.T, path, url, token string) {
	t.Helper()
	b, err := json.Marshal(control.Uplink{URL: strings.Replace(url, "http", "ws", 1) + "/link", Token: token})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// TestUplinkFileIsNotShown: an error about the file tells nothing of what is in it.
func TestUplinkFileIsNotShown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "uplink.json")
	for _, text := range []string{"", "geheim", `{"token": geheim}`, `{"token": {"geheim": 1}}`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readUplink(path); err == nil || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
