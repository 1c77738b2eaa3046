package e2e

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestStartFromAnEnvironment freezes a session, and starts others from what came of it: its owner's, and another user's
// once it is shared.
func TestStartFromAnEnvironment(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id := s.session("alice", "first")
	s.in("alice", "echo frozen > /opt/env/word && rm /opt/env/bin/pip3")
	env, failure := s.freeze("alice", id)
	if failure != "" {
		t.Fatal(failure)
	}
	digest := env["digest"].(string)
	if form := s.form("alice", ""); !strings.Contains(form, `value="`+digest+`"`) {
		t.Error("the spawn form does not offer it to its owner")
	}
	if form := s.form("bob", ""); strings.Contains(form, digest) {
		t.Error("the spawn form offers it to somebody else")
	}
	if r := s.askFrom("bob", "too soon", digest); r.status != http.StatusNotFound {
		t.Errorf("another's environment starts: %d %s", r.status, r.body)
	}
	if r := s.call("alice", http.MethodPost, "/api/v1/environments/"+digest+"/share", map[string]any{"with": "public"}); r.status != http.StatusOK {
		t.Fatalf("share: %d %s", r.status, r.body)
	}
	if form := s.form("bob", `{"environment":"`+digest+`"}`); !strings.Contains(form, "Shared with you") || strings.Contains(form, "not offered any more") {
		t.Error("the spawn form does not offer what is shared")
	}
	for user, launch := range map[string]string{"bob": "his", "alice": "second"} {
		r := s.askFrom(user, launch, digest)
		if r.status != http.StatusAccepted {
			t.Fatalf("%s: %d %s", user, r.status, r.body)
		}
		o := r.object(t)
		if o["environment"] != digest || o["id"] == id {
			t.Errorf("%s: %s", user, r.body)
		}
		s.running(o["id"].(string))
		if got := s.in(user, "cat /opt/env/word; ls /opt/env/bin/pip3 2>/dev/null || true"); got != "frozen" {
			t.Errorf("%s finds %q", user, got)
		}
	}
}

// form is the spawn form of a user, as the Hub gets it.
func (s *site) form(user, options string) string {
	s.t.Helper()
	query := url.Values{"user": {user}, "name": {""}, "options": {options}}
	r := s.call("hub", http.MethodGet, "/api/v1/spawn-form?"+query.Encode(), nil)
	if r.status != http.StatusOK {
		s.t.Fatalf("form: %d %s", r.status, r.body)
	}
	return string(r.body)
}

// askFrom is ask, from an environment.
func (s *site) askFrom(user, launch, ref string) reply {
	return s.askWith(user, launch, map[string]any{"environment": ref})
}
