package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"slipway/internal/hubtest"
	"slipway/internal/testenv"
)

// codeProfiles are sessions of VS Code, and of JupyterLab in an image that has VS Code too.
const codeProfiles = `
  - {name: code, display_name: VS Code, kind: code, images: [code], cpus: 0.5, memory: 1G}
  - {name: both, display_name: Both, kind: lab, images: [code], cpus: 0.5, memory: 1G}
`

// TestCode drives VS Code's own server behind the gate, in front of which a real Hub logs people in.
func TestCode(t *testing.T) {
	t.Parallel()
	testenv.Need(t, testenv.Code)
	eachMajor(t, func(t *testing.T, major int) {
		s := newHubSite(t, hubOptions{major: major, spawner: hubtest.Slipway, service: codeProfiles})
		s.startOnly("alice", "", map[string]any{"profile": "code"})
		s.startOnly("real.dora", "vs", map[string]any{"profile": "both"})
		s.codeBehindTheHub(s.hub.WaitReady("alice", "").URL)
		s.codeBesideANotebook(s.hub.WaitReady("real.dora", "vs").URL)
	})
}

// TestOutpostCode has the published OutpostSpawner start a flavor of the kind.
func TestOutpostCode(t *testing.T) {
	t.Parallel()
	testenv.Need(t, testenv.Code)
	s := newHubSite(t, hubOptions{major: 6, spawner: hubtest.Outpost, config: outpostConfig, service: codeProfiles})
	s.startOnly("alice", "", map[string]any{"flavor": "code"})
	s.isCode("alice", s.hub.Browse("alice").Get(s.hub.WaitReady("alice", "").URL))
}

func (s *hubSite) isCode(whose string, page hubtest.Reply) {
	s.t.Helper()
	if page.Status != http.StatusOK || !strings.Contains(string(page.Body), "vscode-workbench-web-configuration") {
		s.t.Errorf("%s: not a page of VS Code: %s", whose, page.Text())
	}
}

func (s *hubSite) codeBehindTheHub(address string) {
	s.t.Helper()
	alice := s.hub.Browse("alice")
	s.isCode("alice, in a browser", alice.Get(address))
	s.isCode("alice, with a token", s.hub.Through(s.token("alice"), http.MethodGet, address+"?folder=/tmp", nil))
	if page := s.hub.Browse("mallory").Get(address); page.Status != http.StatusForbidden {
		s.t.Errorf("mallory, in a browser: %s", page.Text())
	}
	if r := s.hub.Through(s.token("mallory"), http.MethodGet, address, nil); r.Status != http.StatusForbidden {
		s.t.Errorf("mallory, with a token: %s", r.Text())
	}
	s.hub.AddUser("bob")
	if r := s.hub.Call(http.MethodPost, "/shares/alice/", map[string]any{"user": "bob"}); r.Status != http.StatusOK {
		s.t.Fatalf("share: %s", r.Text())
	}
	bob := s.hub.Browse("bob")
	s.isCode("bob, who has a share", bob.Authorize(bob.Get(address)))

	if err := s.upgrade(address, nil); err == nil {
		s.t.Error("a websocket without a login is opened")
	}
	if err := s.upgrade(address, s.hub.Browse("alice").Cookies(address)); err == nil {
		s.t.Error("a websocket with the Hub's login alone is opened")
	}
	if err := s.upgrade(address, alice.Cookies(address)); err != nil {
		s.t.Errorf("a websocket after the login: %v", err)
	}
	before := alice.Cookies(address)
	alice.Get("/hub/logout")
	if page := alice.Get(address); !strings.Contains(page.URL, "/hub/login") {
		s.t.Errorf("after a logout: %s", page.Text())
	}
	if err := s.upgrade(address, withoutHub(before)); err == nil {
		s.t.Error("after a logout the gate's cookie alone lets in")
	}
}

// withoutHub leaves the cookie out that ends with the Hub's session, as another client would.
func withoutHub(cookies []*http.Cookie) (list []*http.Cookie) {
	for _, c := range cookies {
		if c.Name != "jupyterhub-session-id" {
			list = append(list, c)
		}
	}
	return list
}

// upgrade opens a websocket as VS Code's page does.
func (s *hubSite) upgrade(address string, cookies []*http.Cookie) error {
	h := http.Header{"Origin": {s.hub.URL}}
	for _, c := range cookies {
		h.Add("Cookie", c.Name+"="+c.Value)
	}
	url := strings.Replace(s.hub.URL, "http", "ws", 1) + address + "?reconnectionToken=00000000-0000-4000-8000-000000000000&reconnection=false&skipWebSocketFrames=false"
	c, _, err := websocket.Dial(s.t.Context(), url, &websocket.DialOptions{HTTPHeader: h})
	if err == nil {
		_ = c.CloseNow()
	}
	return err
}

func (s *hubSite) codeBesideANotebook(address string) {
	s.t.Helper()
	dora := s.hub.Browse("real.dora")
	s.isCode("dora, beside her notebook", dora.Get(address+"vscode"))
	if page := dora.Get(address + "lab"); page.Status != http.StatusOK || !strings.Contains(string(page.Body), "JupyterLab") {
		s.t.Errorf("the notebook beside it: %s", page.Text())
	}
	s.isCode("dora, with a token", s.hub.Through(s.token("real.dora"), http.MethodGet, address+"vscode/?folder=/tmp", nil))
	if page := s.hub.Browse("mallory").Get(address + "vscode/"); page.Status != http.StatusForbidden {
		s.t.Errorf("mallory: %s", page.Text())
	}
}
