package e2e

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"slipway/hubapi"
)

// verified asks for the proof of an environment.
func (s *site) verified(user, ref string) hubapi.TreeCheck {
	s.t.Helper()
	r := s.call(user, http.MethodPost, "/api/v1/environments/"+url.PathEscape(ref)+"/verify", nil)
	var check hubapi.EnvironmentCheck
	if err := json.Unmarshal(r.body, &check); err != nil || r.status != http.StatusOK {
		s.t.Fatalf("%s verifies %s: %d %s", user, ref, r.status, r.body)
	}
	return check.Tree
}

// TestEnvironmentCompared proves a real session's environment, then one whose session went on, as another user, and
// after the session is gone.
func TestEnvironmentCompared(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id := s.session("alice", "one")
	s.in("alice", `cd /opt/env && printf 'a\nb' > "$(printf 'new\nline')" && echo 1 > own && ln own hard && ln bin/pip3 hard3 && ln -s nowhere dangling && mkfifo fifo && truncate -s 30M sparse && rm -r bin/pip && umask 077 && mkdir -p deep/er && echo x > deep/er/x`)
	env, failure := s.freeze("alice", id)
	if failure != "" {
		t.Fatal(failure)
	}
	digest := env["digest"].(string)
	if tree := s.verified("alice", digest); tree.Session != id || tree.Changed || tree.Why != "" || tree.Differences != 0 || tree.Paths < 5000 {
		t.Errorf("just frozen: %+v", tree)
	}
	s.in("alice", "chmod 640 /opt/env/hard && echo more > /opt/env/later")
	tree := s.verified("alice", digest)
	first := strings.Join(tree.First, "\n")
	for _, want := range []string{"/opt/env/later: a file in the session, nothing in the environment", "/opt/env/hard: mode 0640 in the session"} {
		if !strings.Contains(first, want) {
			t.Errorf("it lacks %q:\n%s", want, first)
		}
	}
	if !tree.Changed || !strings.Contains(tree.Why, "has changed") || tree.Session != id || tree.Differences < 3 {
		t.Errorf("after changes: %+v", tree)
	}
	s.call("alice", http.MethodPost, "/api/v1/environments/"+digest+"/share", map[string]any{"with": "public"})
	if tree := s.verified("bob", "alice/"+digest); tree.Session != "" || !strings.Contains(tree.Why, "another user's") || len(tree.First) > 0 {
		t.Errorf("another user: %+v", tree)
	}
	s.call("alice", http.MethodDelete, "/api/v1/sessions/"+id, nil)
	s.eventually("the session is gone", func() bool {
		tree = s.verified("alice", digest)
		return strings.Contains(tree.Why, "gone")
	})
	if tree.Session != "" || tree.Differences != 0 {
		t.Errorf("without the session: %+v", tree)
	}
}
