package server

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"slipway/spawner"
)

// TestRunEndsEveryStream: a reader of events and a proxied websocket-like connection must not hold up the end.
func TestRunEndsEveryStream(t *testing.T) {
	app, theirs := net.Pipe()
	defer app.Close()
	h := start(t, newFake(lab("s-1", "alice", "/user/alice/")), func(cfg *Config) {
		cfg.Dial = func(context.Context, spawner.ID) (net.Conn, error) { return theirs, nil }
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	agents, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- h.Run(ctx, Listeners{Public: l, AgentAPI: agentListener{agents, "s-1"}}) }()
	base := "http://" + l.Addr().String()

	req, _ := http.NewRequest("GET", base+"/api/v1/sessions/s-1/events", nil)
	req.Header.Set("Authorization", "Bearer alice-token")
	events, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer events.Body.Close()

	go func() { // an app that upgrades and then stays silent
		_, _ = app.Read(make([]byte, 64<<10))
		_, _ = io.WriteString(app, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
	}()
	up, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer up.Close()
	_, _ = io.WriteString(up, "GET /user/alice/x HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
	first := make([]byte, 12)
	if _, err := io.ReadFull(up, first); err != nil || !strings.HasSuffix(string(first), "101") {
		t.Fatalf("%q, %v", first, err)
	}
	if status, body := raw(t, agents.Addr().String(), "GET /api/v1/me HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"); status != 200 || !strings.Contains(body, "s-1") {
		t.Errorf("%d %s", status, body)
	}

	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run = %v", err)
	}
	if b, err := io.ReadAll(events.Body); err != nil || strings.Contains(string(b), "data:") {
		t.Errorf("the events ended with %q, %v", b, err)
	}
	if _, err := io.ReadAll(up); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Errorf("the upgraded connection ended with %v", err)
	}
}

func TestRunTellsOfABrokenListener(t *testing.T) {
	h := start(t, newFake(), nil)
	if err := h.Run(t.Context(), Listeners{Public: brokenListener{}}); err == nil {
		t.Error("Run has not told")
	}
}

type brokenListener struct{}

func (brokenListener) Accept() (net.Conn, error) { return nil, io.ErrUnexpectedEOF }

func (brokenListener) Close() error { return nil }

func (brokenListener) Addr() net.Addr { return &net.TCPAddr{} }
