package cli

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestDoctorOfAUser: what a service says of its user, with what to do.
func TestDoctorOfAUser(t *testing.T) {
	good := map[string]string{
		"/api/v1/whoami":      `{"user": "alice", "hub": "main", "person": {"login": "alice"}}`,
		"/api/v1/credentials": `{"credentials": [{"name": "wlcg"}]}`,
		"/api/v1/quota":       `{"quotas": [{"name": "home", "kind": "user", "percent": 12}]}`,
	}
	for name, c := range map[string]struct {
		answers map[string]string // in place of the good ones; empty: an error
		code    int
		said    []string // among the lines
	}{
		"all is well": {nil, exitOK, []string{"ok      service        it answers, and knows you as alice of hub main", "ok      credentials    1, in order"}},
		"a token that the service refuses": {
			map[string]string{"/api/v1/whoami": ""}, exitError, []string{"service: ask the Hub"},
		},
		"no account": {
			map[string]string{"/api/v1/whoami": `{"person": {"trouble": "no number", "remedy": "ask for one"}}`},
			exitError, []string{"account: ask for one"},
		},
		"a token that needs its user, a full home": {
			map[string]string{
				"/api/v1/credentials": `{"credentials": [{"name": "wlcg", "trouble": "log in again"}]}`,
				"/api/v1/quota":       `{"quotas": [{"name": "home", "kind": "user", "percent": 97}]}`,
			},
			exitOK, []string{"log in again", "quota of home: make room: `slipway home usage`"},
		},
		"a home that cannot be written to": {
			map[string]string{"/api/v1/quota": `{"quotas": [{"name": "home", "read_only": true}]}`},
			exitError, []string{"quota of home: tell your administrator"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				text, other := c.answers[r.URL.Path]
				if !other {
					text = good[r.URL.Path]
				}
				if text == "" {
					w.WriteHeader(http.StatusUnauthorized)
					text = `{"error": {"code": "unauthorized", "message": "no", "remedy": "ask the Hub"}}`
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(text))
			}))
			defer service.Close()
			var out strings.Builder
			env := Env{Stdout: &out, Stderr: &out, Getenv: func(name string) string {
				return map[string]string{"SLIPWAY_URL": service.URL, "SLIPWAY_TOKEN": "t"}[name]
			}}
			if code := Run(t.Context(), []string{"doctor"}, env); code != c.code {
				t.Errorf("code %d: %s", code, &out)
			}
			for _, line := range c.said {
				if !strings.Contains(out.String(), line) {
					t.Errorf("%q is not in what it said:\n%s", line, &out)
				}
			}
		})
	}
}
