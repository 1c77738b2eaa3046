package e2e

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

// extensionOfVSCode starts a server and uses a kernel in it as VS Code's extension "JupyterHub" does: its calls in
// their order, with nothing but a user's token, as its sources have them. Of the Hub's they go to the REST API, of the
// server's through the proxy with the token in the header and in the query.
func (s *hubSite) extensionOfVSCode(user string) (server string) {
	s.t.Helper()
	token, name := s.token(user), url.PathEscape(user)
	hub := func(method, path string, want ...int) []byte {
		s.t.Helper()
		r := s.hub.As(token, method, path, nil)
		for _, w := range want {
			if r.Status == w {
				return r.Body
			}
		}
		s.t.Fatalf("%s %s: %s", method, path, r.Text())
		return nil
	}
	var v struct {
		Version string
		Servers map[string]struct{ URL string }
	}
	if err := json.Unmarshal(hub("GET", "", 200), &v); err != nil || v.Version == "" {
		s.t.Errorf("the Hub's version: %+v, %v", v, err)
	}
	hub("GET", "/users/"+name, 200)
	hub("POST", "/users/"+name+"/server", 201, 202)
	s.hub.WaitReady(user, "")
	if err := json.Unmarshal(hub("GET", "/users/"+name+"?include_stopped_servers", 200), &v); err != nil || v.Servers[""].URL == "" {
		s.t.Fatalf("her servers: %+v, %v", v, err)
	}
	at := strings.TrimSuffix(v.Servers[""].URL, "/")
	ask := func(method, path string, body any, want int) []byte {
		s.t.Helper()
		r := s.hub.Through(token, method, at+path, body)
		if r.Status != want {
			s.t.Fatalf("%s %s: %s", method, path, r.Text())
		}
		return r.Body
	}
	for _, path := range []string{"/api", "/api/kernelspecs", "/api/kernels", "/api/sessions"} {
		ask(http.MethodGet, path, nil, 200)
	}
	var session struct {
		ID     string
		Kernel struct{ ID string }
	}
	made := ask(http.MethodPost, "/api/sessions", map[string]any{"path": "a-jvsc-1.ipynb", "name": "a.ipynb", "type": "notebook", "kernel": map[string]string{"name": "python3"}}, 201)
	if err := json.Unmarshal(made, &session); err != nil {
		s.t.Fatal(err)
	}
	proxy, err := url.Parse(s.hub.URL)
	if err != nil {
		s.t.Fatal(err)
	}
	ws, _, err := websocket.Dial(s.t.Context(), "ws://"+proxy.Host+at+"/api/kernels/"+session.Kernel.ID+"/channels?session_id=e2e&token="+token, &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"token " + token}}})
	if err != nil {
		s.t.Fatal(err)
	}
	defer ws.CloseNow()
	ws.SetReadLimit(-1)
	n := &openKernel{jupyter: &jupyter{T: s.t.(*testing.T)}, ws: ws}
	if got := n.until("execute_result", n.run("6*7")); !strings.Contains(got, `"42"`) {
		s.t.Errorf("6*7: %s", got)
	}
	ask(http.MethodPost, "/api/kernels/"+session.Kernel.ID+"/interrupt", map[string]any{}, 204)
	ask(http.MethodDelete, "/api/sessions/"+session.ID, nil, 204)
	return at + "/"
}
