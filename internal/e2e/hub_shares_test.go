package e2e

import (
	"net/http"
	"strings"
	"testing"

	"slipway/internal/hubtest"
)

// TestSharedServer has a user share her server by the Hub: the other opens it through the Hub's proxy and the session
// proxy, in a browser and with a token; a third is refused; and so is the other when the share is taken back.
func TestSharedServer(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, major int) {
		s := newHubSite(t, hubOptions{major: major, spawner: hubtest.Slipway})
		s.startOnly("real.alice", "lab", nil)
		server := s.hub.WaitReady("real.alice", "lab")
		s.hub.AddUser("bob")
		share := func(method string) {
			t.Helper()
			r := s.hub.Call(method, "/shares/real.alice/lab", map[string]any{"user": "bob"})
			if r.Status != http.StatusOK {
				t.Fatalf("share: %s", r.Text())
			}
		}
		status := func(user string) int {
			return s.hub.Through(s.hub.Token(user), http.MethodGet, server.URL+"api/status", nil).Status
		}
		if got := status("bob"); got != http.StatusForbidden {
			t.Errorf("bob, before: %d", got)
		}
		share(http.MethodPost)
		if got := status("bob"); got != http.StatusOK {
			t.Errorf("bob, with a token: %d", got)
		}
		bob := s.hub.Browse("bob")
		page := bob.Authorize(bob.Get(server.URL + "lab"))
		if page.Status != http.StatusOK || !strings.Contains(string(page.Body), "JupyterLab") {
			t.Errorf("bob, in a browser: %s", page.Text())
		}
		if got := status("carol"); got != http.StatusForbidden {
			t.Errorf("carol, with a token: %d", got)
		}
		if page := s.hub.Browse("carol").Get(server.URL + "lab"); page.Status != http.StatusForbidden {
			t.Errorf("carol, in a browser: %d", page.Status)
		}
		share(http.MethodPatch)
		if got := status("bob"); got != http.StatusForbidden {
			t.Errorf("bob, afterwards: %d", got)
		}
	})
}
