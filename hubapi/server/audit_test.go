package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"

	"slipway/hubapi"
	"slipway/hubapi/server/audit"
	"slipway/hubapi/server/hubs"
	"slipway/internal/errs"
	"slipway/internal/loglimit"
	"slipway/internal/secret"
	"slipway/internal/testenv"
	"slipway/spawner"
)

// auditLines returns the audit lines among what was logged.
func auditLines(logged string) (lines []string) {
	for line := range strings.Lines(logged) {
		if strings.Contains(line, " audit=") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// TestEveryChangeIsInTheLog: each route of the API that changes something leaves one line with who, by which door, on
// what and what came of it, whether it is done, refused or of nobody known; the others leave none. saysInLog waits for
// words in the log: a request's line is written when it is over, which its caller may see before.
func (h *harness) saysInLog(t *testing.T, words string) {
	t.Helper()
	testenv.Until(t, "the log has "+words, testenv.Hang, func() bool { return strings.Contains(h.logged.String(), words) })
}

func TestEveryChangeIsInTheLog(t *testing.T) {
	hers := job("j-alice", "alice")
	hers.Scan = "scan-alice"
	h := start(t, newFake(lab("s-alice", "alice", "/user/alice/"), hers), func(cfg *Config) {
		cfg.Hubs[0].Servers, cfg.Pool, cfg.SSH = &fakeServers{}, fakePool{}, authority(t, cfg.Logins)
		add(t, cfg.SSH, "alice", alicesKey)
		cfg.Tokens = accessTokens(t)
		newCredentials("main:alice").with(cfg)
	})
	ask := func(method, path, body, token string) []string {
		before := len(h.logged.String())
		req := httptest.NewRequest(method, hubapi.Base+path, strings.NewReader(body))
		if token != "" {
			req.Header.Set("Authorization", "token "+token)
		}
		s := h.Server
		if token == "" {
			s = New(h.cfg) // strangers' lines are limited, and here are many
		}
		s.Public().ServeHTTP(httptest.NewRecorder(), req)
		return auditLines(h.logged.String()[before:])
	}
	walkRoutes(t, h.Public().(chi.Routes), func(method, route string) {
		tc, ok := walked[method+" "+strings.TrimPrefix(route, hubapi.Base)]
		if !ok || method == http.MethodGet {
			return
		}
		for token, result := range map[string]string{"bob-token": "done", "": "refused"} {
			if tc.refused {
				result = "refused"
			} else if route == hubapi.Base+"/servers" && token != "" {
				result = "failed" // at the Hub, which is none
			}
			lines := ask(method, tc.path, tc.body, token)
			switch {
			case !audit.Changes(method, route) && token == "": // who is not known has not come as far as a route
			case !audit.Changes(method, route) && len(lines) != 0:
				t.Errorf("%s %s changes nothing and is in the log: %s", method, route, lines)
			case !audit.Changes(method, route):
			case len(lines) != 1:
				t.Errorf("%s %s as %q: %d audit lines: %s", method, route, token, len(lines), lines)
			case result != "done" && strings.HasSuffix(lines[0], ` why=""`):
				t.Errorf("%s %s as %q is %s for no reason: %s", method, route, token, result, lines[0])
			case !strings.Contains(lines[0], " audit="+result+" ") || !strings.Contains(lines[0], "door=token") ||
				token != "" && !strings.Contains(lines[0], "user=bob hub=main") || token == "" && !strings.Contains(lines[0], "nobody known"):
				t.Errorf("%s %s as %q, want it %s: %s", method, route, token, result, lines[0])
			}
		}
		if audit.Changes(method, route) && audit.Words()[audit.ActionOf(method, route)] == "" {
			t.Errorf("%s %s has no words for the log: audit.Words", method, route)
		}
	})
	lines := ask("POST", "/sessions/s-alice/stop?wait=no", "", "root-token")
	if len(lines) != 1 || !strings.Contains(lines[0], `msg="a session is stopped" by="root of main" user=root hub=main door=token principal=main:root path_id=s-alice owner=alice`) {
		t.Errorf("an administrator stops alice's session: %s", lines)
	}
	if lines := ask("POST", "/sessions/s-alice/stop?wait=maybe", "", "alice-token"); len(lines) != 1 || !strings.Contains(lines[0], "audit=refused") || !strings.Contains(lines[0], "is not valid") {
		t.Errorf("a bad request: %s", lines)
	}
	if lines := ask("GET", "/credentials?user=alice", "", "root-token"); len(lines) != 1 || !strings.Contains(lines[0], "credentials of another user are listed") {
		t.Errorf("what another has is looked at: %s", lines)
	}
}

// TestOtherDoorsAreInTheLog: likewise of the pages, of programs in sessions, and of the Hubs' spawners.
func TestOtherDoorsAreInTheLog(t *testing.T) {
	h := startPages(t, newFake(lab("s-alice", "alice", "/base/user/alice/")), func(cfg *Config) {
		cfg.SSH = authority(t, cfg.Logins)
		newCredentials("main:alice").with(cfg)
	})
	walkRoutes(t, h.pages.Routes(), func(method, route string) {
		if audit.Changes(method, route) && audit.Words()[audit.ActionOf(method, route)] == "" {
			t.Errorf("%s %s has no words for the log: audit.Words", method, route)
		}
	})
	p := h.visitor(t, "alice")
	before := len(h.logged.String())
	p.do("POST", prefix+"sessions/s-alice/stop", map[string][]string{"token": {formToken(t, p.get(prefix).Body.String())}})
	lines := auditLines(h.logged.String()[before:])
	if len(lines) != 1 || !strings.Contains(lines[0], `msg="a session is stopped" by="alice of main" user=alice hub=main door=page principal=main:alice path_id=s-alice`) || !strings.Contains(lines[0], "audit=done") {
		t.Errorf("the page: %s", lines)
	}
	before = len(h.logged.String())
	p.do("POST", prefix+"sessions/s-alice/stop", nil)
	if lines := auditLines(h.logged.String()[before:]); len(lines) != 1 || !strings.Contains(lines[0], "audit=refused") || !strings.Contains(lines[0], "door=page") {
		t.Errorf("the page without its token: %s", lines)
	}
	for path, fields := range map[string][]string{"ssh/keys": {"key", "nonsense"}, "login": {"code", "WRONG"}, "credentials/proxy": {"file", ""}} {
		before = len(h.logged.String())
		p.do("POST", prefix+path, map[string][]string{"token": {formToken(t, p.get(prefix).Body.String())}, fields[0]: {fields[1]}})
		if lines := auditLines(h.logged.String()[before:]); len(lines) != 1 || !strings.Contains(lines[0], "audit=refused") || strings.HasSuffix(lines[0], ` why=""`) {
			t.Errorf("what is said where it was typed, %s: %s", path, lines)
		}
	}
}

// TestDoorsWithoutRoutes: what was done by one is in the log like the rest.
func TestDoorsWithoutRoutes(t *testing.T) {
	h := start(t, newFake(), func(cfg *Config) { newCredentials("main:alice").with(cfg) })
	alice := spawner.Caller{Hub: "main", User: "alice"}
	for want, err := range map[string]error{
		`msg="it is done" key=x by="alice of main" user=alice hub=main door=ssh principal=main:alice audit=done action=start`: nil,
		`audit=refused action=start status=403 why="not hers"`:                                                                errs.New(errs.Forbidden, "not hers"),
		`audit=failed action=start status=503 why=silent`:                                                                     errs.New(errs.Unavailable, "silent"),
		`audit="broken off" action=start`:                                                                                     context.Canceled,
	} {
		before := len(h.logged.String())
		h.Audit.Write(t.Context(), alice, "ssh", "start", "it is done", err, "key", "x")
		if lines := auditLines(h.logged.String()[before:]); len(lines) != 1 || !strings.Contains(lines[0], want) {
			t.Errorf("%s, want %s", lines, want)
		}
	}
}

// walkRoutes calls do with every route.
func walkRoutes(t *testing.T, routes chi.Routes, do func(method, route string)) {
	t.Helper()
	err := chi.Walk(routes, func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		do(method, route)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestStartsThatFailSayWhose: the line of a start that a Hub's spawner asked for has whose it was to be, and what a
// site lacks is no fault.
func TestStartsThatFailSayWhose(t *testing.T) {
	engine := newFake()
	engine.starting = func(context.Context) error { return errs.New(errs.Missing, "account: there is none") }
	h := start(t, engine, func(cfg *Config) { newCredentials("main:alice").with(cfg) })
	body := `{"user":"alice","prefix":"/user/alice/","options":{"profile":"small"}}`
	if status, text := h.post(t, spawnerToken, "/sessions", body); status != http.StatusNotImplemented {
		t.Fatalf("%d %s", status, text)
	}
	lines := auditLines(h.logged.String())
	if len(lines) != 1 || !strings.Contains(lines[0], "door=spawner owner=alice principal=main:alice audit=refused") {
		t.Errorf("%s", lines)
	}
}

// TestStrangersDoNotFillTheLog: what anybody can cause is counted from some lines on; what users do is not.
func TestStrangersDoNotFillTheLog(t *testing.T) {
	h := start(t, newFake(), func(c *Config) {
		c.Hubs[0].Outpost = []hubs.Credential{{Username: "main", Password: secret.New(outpostPassword)}}
	})
	front := h.Public()
	ask := func(method, path, authorization string) {
		r := httptest.NewRequest(method, path, nil)
		r.Header.Set("Authorization", authorization)
		front.ServeHTTP(httptest.NewRecorder(), r)
	}
	const many = 20 * loglimit.Lines
	for range many {
		ask("GET", hubapi.Base+"/sessions", "Bearer nobody's")
		ask("POST", hubapi.Base+"/jobs", "")
		ask("GET", hubapi.Base+"/me", "Bearer down-token")
		ask("DELETE", "/services/x/y", "Basic eDp5")
	}
	info := 0
	for line := range strings.SplitSeq(h.logged.String(), "\n") {
		if strings.Contains(line, "level=") && !strings.Contains(line, "level=DEBUG") {
			info++
		}
	}
	if info > 5*loglimit.Lines {
		t.Errorf("%d lines of strangers", info)
	}
	before := strings.Count(h.logged.String(), "audit=refused")
	for range many {
		ask("POST", hubapi.Base+"/sessions/s-none/stop", "token alice-token")
	}
	if n := strings.Count(h.logged.String(), "audit=refused") - before; n != many {
		t.Errorf("%d of %d lines of a user's", n, many)
	}
}
