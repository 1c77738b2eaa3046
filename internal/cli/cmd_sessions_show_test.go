package cli

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"slipway/hubapi"
)

// The default server has a session that was stopped, whose changes are kept, and one that runs: that one is shown.
func TestShowFindsTheRunningSession(t *testing.T) {
	session := func(id, phase string) hubapi.Session {
		return hubapi.Session{
			Workload: hubapi.Workload{Meta: hubapi.Meta{ID: id, User: "alice"}, Kind: "lab", Phase: phase, Want: phase},
		}
	}
	stopped, running := session("s-0123456789abcdef", "stopped"), session("s-fedcba9876543210", "running")
	mux := http.NewServeMux()
	answer := func(pattern string, v any) {
		mux.HandleFunc("GET "+hubapi.Base+pattern, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(v) })
	}
	answer("/me", hubapi.Me{User: "alice"})
	answer("/sessions", hubapi.Sessions{Sessions: []hubapi.Session{stopped, running}})
	answer("/sessions/"+stopped.ID, stopped)
	answer("/sessions/"+running.ID, running)
	server := httptest.NewServer(mux)
	defer server.Close()
	var out bytes.Buffer
	vars := map[string]string{"SLIPWAY_URL": server.URL, "SLIPWAY_TOKEN": "token"}
	env := Env{Getenv: func(name string) string { return vars[name] }, Stdout: &out, Stderr: &out}
	if err := runSessionShow(t.Context(), env, "default", false); err != nil || !strings.Contains(out.String(), running.ID) {
		t.Errorf("%v: %s", err, &out)
	}
}
