package server

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

func TestEnvironmentPages(t *testing.T) {
	h := startPages(t, newFake(lab("s-alice", "alice", "/base/user/alice/")), nil)
	p := h.visitor(t, "alice")
	for path, words := range map[string]string{
		"environments":                                   "carol/theirs",
		"environments/" + theDigest:                      "mine:v 1",
		"environments/mine:v%201":                        "mine:v 1",
		"environments/mine:v%201/diff?from=" + theDigest: "no difference",
		"environments/mine:v%201/remove":                 "Remove mine:v 1?",
		"environments/carol%2Ftheirs:v1":                 "Environment carol/theirs:v1",
		"environments/carol/theirs:v1":                   "Environment carol/theirs:v1",
		"":                                               `href="` + prefix + `environments"`,
	} {
		if r := p.get(prefix + path); r.Code != http.StatusOK || !strings.Contains(r.Body.String(), words) {
			t.Errorf("%s: %d %s", path, r.Code, r.Body)
		}
	}
	for path, status := range map[string]int{"environments/other": 404, "environments/mine:v%201/diff": 422, "environments/a/b/c": 404, "environments/a/b": 404} {
		if r := p.get(prefix + path); r.Code != status {
			t.Errorf("%s: %d", path, r.Code)
		}
	}
}

func TestEnvironmentForms(t *testing.T) {
	fake := &fakeEnvironments{owner: "alice"}
	h := startPages(t, newFake(lab("s-alice", "alice", "/base/user/alice/")), func(c *Config) { c.Environments = fake })
	p, bob := h.visitor(t, "alice"), h.visitor(t, "bob")
	token, others := formToken(t, p.get(prefix).Body.String()), formToken(t, bob.get(prefix).Body.String())
	at := "environments/mine:v%201"
	for _, tc := range []struct {
		who         *person
		path, token string
		form        url.Values
		status      int
		to          string
	}{
		{p, at + "/share", token, url.Values{"with": {"group"}, "group": {"higgs"}}, http.StatusSeeOther, at},
		{p, at + "/tag", token, url.Values{"name": {"mine"}, "tag": {"v2"}}, http.StatusSeeOther, "environments/"},
		{p, at + "/remove", token, nil, http.StatusSeeOther, "environments"},
		{p, at + "/share", others, url.Values{"with": {"public"}}, http.StatusForbidden, ""},
		{p, at + "/remove", "", nil, http.StatusForbidden, ""},
		{bob, at + "/share", others, url.Values{"with": {"public"}}, http.StatusNotFound, ""},
		{bob, at + "/remove", others, nil, http.StatusNotFound, ""},
	} {
		form := url.Values{"token": {tc.token}}
		for name, value := range tc.form {
			form[name] = value
		}
		r := tc.who.do("POST", prefix+tc.path, form)
		if r.Code != tc.status || tc.to != "" && !strings.HasPrefix(r.Header().Get("Location"), prefix+tc.to) {
			t.Errorf("%s: %d %v %s", tc.path, r.Code, r.Header(), r.Body)
		}
	}
	for path, back := range map[string]string{at + "/tag": at, "environments/other/tag": "environments"} {
		r := p.do("POST", prefix+path, url.Values{"token": {token}, "name": {"Bad"}})
		if r.Code < 400 || !strings.Contains(r.Body.String(), `href="`+prefix+back+`"`) {
			t.Errorf("%s leads nowhere: %d %s", path, r.Code, r.Body)
		}
	}
	if done := fake.all(); len(done) != 3 || !slices.ContainsFunc(done, func(s string) bool { return strings.Contains(s, "higgs") }) {
		t.Errorf("done: %q", done)
	}
	for _, words := range []string{"an environment is shared", "an environment's name is removed", "user=alice"} {
		if !strings.Contains(h.logged.String(), words) {
			t.Errorf("the log does not say %q", words)
		}
	}
}

func TestNoEnvironmentPages(t *testing.T) {
	h := startPages(t, newFake(), func(c *Config) { c.Environments = nil })
	p := h.visitor(t, "alice")
	if r := p.get(prefix); strings.Contains(r.Body.String(), "environments\"") {
		t.Error("the bar leads to nothing")
	}
	for _, path := range []string{"environments", "environments/x", "environments/x/remove"} {
		if r := p.get(prefix + path); r.Code != http.StatusNotImplemented {
			t.Errorf("%s: %d", path, r.Code)
		}
	}
}
