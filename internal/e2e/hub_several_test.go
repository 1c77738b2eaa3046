package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"slipway/internal/hubtest"
	"slipway/internal/testenv"
)

// secondConfig is the second Hub's own: another credential than that of the first.
const secondConfig = `
credential = base64.b64encode(f"second:{s['outpost_password']}".encode()).decode()
c.OutpostSpawner.request_headers = {"Authorization": f"Basic {credential}"}
c.OutpostSpawner.custom_poll_interval = 2000
c.Spawner.http_timeout = 120
`

// TestSeveralHubs runs two real Hubs on one service: one of version 6 with our Spawner, one of version 5 with
// OutpostSpawner, both at the base path "/", with users of the same name who are not the same people.
func TestSeveralHubs(t *testing.T) {
	t.Parallel()
	own := fmt.Sprintf("127.0.0.1:%d", testenv.FreePorts(t, 1)[0])
	second := hubtest.Start(t, hubtest.Options{
		Major: 5, Spawner: hubtest.Outpost, ServiceURL: "http://" + own, Stopped: true,
		Config: secondConfig,
	})
	s := newHubSite(t, hubOptions{major: 6, hubs: fmt.Sprintf(`
  - name: second
    api_url: %s
    service: slipway
    listen: %s
    realm: elsewhere
    token_file: $DIR/service.token
    outpost: {credentials: [{username: second, password_file: $DIR/outpost.password}]}
`, second.APIURL, own)})
	t.Cleanup(func() { second.StopServer("alice", "") })
	second.Restart()

	for address, username := range map[string]string{"http://" + own: hubtest.OutpostUser, s.url: "second"} {
		if status := flavorsFor(t, address, username); status != http.StatusUnauthorized {
			t.Errorf("the credential of %s at %s, the other hub's address: %d", username, address, status)
		}
	}
	s.start("alice", "", nil)
	if r := second.StartServer("alice", "", nil); r.Status >= 400 {
		t.Fatal(r.Text())
	}
	there := second.WaitReady("alice", "")
	token := second.Token("alice")
	s.eventually("the second hub's server answers", func() bool {
		return second.Through(token, http.MethodGet, there.URL+"api/status", nil).Status == http.StatusOK
	})
	if all := s.sessions(); len(all) != 1 {
		t.Errorf("an administrator of the first hub sees %+v", all)
	}
	here, other := owner(t, s.dir, "alice"), owner(t, s.dir, "@elsewhere", "alice")
	if here == other {
		t.Errorf("two people have the user id %d", here)
	}
	s.stop("alice", "")
	if r := second.Through(token, http.MethodGet, there.URL+"api/status", nil); r.Status != http.StatusOK {
		t.Errorf("the second hub's server went with the first's: %s", r.Text())
	}
	if r := second.StopServer("alice", ""); r.Status >= 400 {
		t.Error(r.Text())
	}
	second.WaitStopped("alice", "")
	s.discardAll("http://"+own, token)
}

// discardAll has a user discard all that she sees at an address.
func (s *hubSite) discardAll(address, token string) {
	s.t.Helper()
	var o struct{ Sessions []hubSession }
	r := hubtest.Ask(s.t, token, http.MethodGet, address+"/api/v1/sessions", nil)
	if err := json.Unmarshal(r.Body, &o); err != nil || len(o.Sessions) != 1 {
		s.t.Errorf("she sees %s, %v", r.Text(), err)
	}
	for _, w := range o.Sessions {
		if r := hubtest.Ask(s.t, token, http.MethodDelete, address+"/api/v1/sessions/"+w.ID, nil); r.Status != http.StatusNoContent {
			s.t.Errorf("discard %s: %s", w.ID, r.Text())
		}
	}
}

// flavorsFor asks at an address what a credential may start.
func flavorsFor(t *testing.T, address, username string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+"/flavors/", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth(username, hubtest.OutpostPassword)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// owner returns the user id of a home.
func owner(t *testing.T, dir string, path ...string) uint32 {
	t.Helper()
	info, err := os.Stat(filepath.Join(append([]string{dir, "homes"}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Uid
}
