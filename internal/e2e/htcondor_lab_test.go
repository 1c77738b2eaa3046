package e2e

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"

	"slipway/internal/testenv"
)

// notebook is a session in which JupyterLab runs, with a kernel of its own.
type notebook struct{ user, id, kernel string }

// farHub is fakeHub for jupyterhub-singleuser, which asks who it is.
func farHub(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.TrimSuffix(r.URL.Path, "/") == "/hub/api":
		w.Header().Set("X-JupyterHub-Version", "6.1.1")
		fmt.Fprint(w, `{"version": "6.1.1"}`)
	case strings.HasSuffix(r.URL.Path, "/activity"):
		fmt.Fprint(w, `{}`)
	default:
		fakeHub(w, r)
	}
}

// askLab sends the Hub's request for a session with what it starts for its users.
func (s *farSite) askLab(user string) reply {
	prefix := "/user/" + user + "/"
	return s.call("hub", http.MethodPost, "/api/v1/sessions", map[string]any{
		"user": user, "server_name": "", "options": map[string]any{}, "launch": "one", "prefix": prefix, "argv": []string{"jupyterhub-singleuser"},
		"env": map[string]string{
			"JUPYTERHUB_USER": user, "JUPYTERHUB_API_TOKEN": "secret-of-" + user, "JUPYTERHUB_CLIENT_ID": "jupyterhub-user-" + user, "JUPYTERHUB_BASE_URL": "/",
			"JUPYTERHUB_SERVICE_PREFIX": prefix, "JUPYTERHUB_SERVICE_URL": "http://127.0.0.1:8888" + prefix, "JUPYTERHUB_API_URL": s.hub.URL + "/hub/api",
			"JUPYTERHUB_ACTIVITY_URL": s.hub.URL + "/hub/api/users/" + user + "/activity", "JUPYTERHUB_OAUTH_CALLBACK_URL": prefix + "oauth_callback",
			"JUPYTERHUB_OAUTH_ACCESS_SCOPES": `["access:services!service=slipway"]`,
		},
	})
}

// aLab runs JupyterLab and a kernel on a worker, which is cut off for a while.
func (s *farSite) aLab() {
	lab := notebook{user: "lily", id: s.askLab("lily").object(s.t)["id"].(string)}
	s.running(lab.id)
	if page := s.call(lab.user, http.MethodGet, "/user/lily/lab", nil); page.status != http.StatusOK || !strings.Contains(string(page.body), "JupyterLab") {
		s.t.Fatalf("JupyterLab: %d %.500s", page.status, page.body)
	}
	started := s.call(lab.user, http.MethodPost, "/user/lily/api/kernels", map[string]any{"name": "python3"})
	if started.status != http.StatusCreated {
		s.t.Fatalf("a kernel: %d %s", started.status, started.body)
	}
	lab.kernel = started.object(s.t)["id"].(string)
	s.found.lab = lab
	before := s.channels(lab)
	const facts = "import os; print(os.getpid(), os.getppid(), os.uname().nodename, kept)"
	was, err := before.run("kept = 41 + 1\n" + facts)
	if err != nil || !strings.HasSuffix(was, "node2.slipway.test 42\n") {
		s.t.Fatalf("a cell prints %q, %v", was, err)
	}
	s.launched(lab)
	k, counts := s.counting(lab.user)
	s.pool.Cut(s.t, "node2")
	late := k.n.run("late = globals().get('late', 0) + 1; print('late')")
	<-time.After(partition(s.t))
	s.pool.Heal(s.t, "node2")
	if is, err := before.run(facts); errors.Is(err, context.DeadlineExceeded) || err == nil && is != was {
		s.t.Errorf("what was open while the worker was cut off says %q, %v", is, err)
	}
	s.goesOn(lab, was, facts)
	k.counted(counts)
	k.hears(late, "late")
	k.says("print(late)", "1") // it came once
	k.ask(http.MethodDelete, "", http.StatusNoContent)
	if n := s.submissions(lab.id); n != 1 {
		s.t.Errorf("it was submitted %d times", n)
	}
}

// launched starts a kernel on a slice from JupyterLab's launcher, interrupts it, and shuts it down.
func (s *farSite) launched(lab notebook) {
	s.t.Helper()
	started := s.call(lab.user, http.MethodPost, "/user/lily/api/kernels", map[string]any{"name": "slipway-far"})
	if started.status != http.StatusCreated {
		s.t.Fatalf("a kernel on a slice: %d %s", started.status, started.body)
	}
	own := notebook{lab.user, lab.id, started.object(s.t)["id"].(string)}
	c := s.channels(own)
	if told, err := c.run("kept = 7"); err != nil {
		s.t.Fatalf("its first cell: %q, %v", told, err)
	}
	ended := make(chan error, 1)
	busy := func() { _, err := c.run("import time\nwhile True: time.sleep(.1)"); ended <- err }
	go busy()
	s.eventually("it is interrupted", func() bool {
		s.call(own.user, http.MethodPost, "/user/lily/api/kernels/"+own.kernel+"/interrupt", nil)
		select {
		case err := <-ended:
			if err == nil { // it was interrupted before it began
				go busy()
			}
			return err != nil
		default:
			return false
		}
	})
	if said, err := c.run("import os; print(os.uname().nodename, kept)"); err != nil || said != "node2.slipway.test 7\n" {
		s.t.Errorf("a kernel on a slice says %q, %v", said, err)
	}
	if r := s.call(own.user, http.MethodDelete, "/user/lily/api/kernels/"+own.kernel, nil); r.status != http.StatusNoContent {
		s.t.Errorf("it is not shut down: %d %s", r.status, r.body)
	}
	s.eventually("it is gone", func() bool { return len(s.list(own.user, "sessions")) == 1 })
}

// goesOn runs a cell over a new connection to a kernel.
func (s *farSite) goesOn(lab notebook, was, facts string) {
	s.t.Helper()
	s.eventually("the kernel is reached", func() bool {
		return s.call(lab.user, http.MethodGet, "/user/lily/api/kernels/"+lab.kernel, nil).status == http.StatusOK
	})
	if is, err := s.channels(lab).run(facts); err != nil || is != was {
		s.t.Errorf("a new connection says %q, %v; it was %q", is, err, was)
	}
}

// channels is a connection to a kernel.
type channels struct{ conn *websocket.Conn }

// channels opens one, through the session proxy and the worker's link.
func (s *farSite) channels(lab notebook) channels {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), testenv.Hang)
	defer cancel()
	address := "wss" + strings.TrimPrefix(s.url, "https") + "/user/" + lab.user + "/api/kernels/" + lab.kernel + "/channels?session_id=" + rand.Text()
	conn, resp, err := websocket.Dial(ctx, address, &websocket.DialOptions{
		HTTPClient: s.client, HTTPHeader: http.Header{"Authorization": {"Bearer token-of-" + lab.user}},
	})
	if err != nil {
		s.t.Fatalf("%s: %v %v", address, err, resp)
	}
	conn.SetReadLimit(1 << 20)
	s.t.Cleanup(func() { _ = conn.CloseNow() }) // the other side may have closed it
	return channels{conn}
}

// run runs a cell and gives what it prints.
func (c channels) run(code string) (printed string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Hang)
	defer cancel()
	id := fmt.Sprintf("cell-%d", time.Now().UnixNano())
	request, err := json.Marshal(map[string]any{
		"channel": "shell", "header": map[string]any{"msg_id": id, "msg_type": "execute_request", "session": "e2e", "username": "e2e", "version": "5.3"},
		"parent_header": map[string]any{}, "metadata": map[string]any{}, "content": map[string]any{"code": code, "silent": false, "store_history": false},
	})
	if err != nil {
		return "", err
	}
	if err := c.conn.Write(ctx, websocket.MessageText, request); err != nil {
		return "", err
	}
	for {
		_, text, err := c.conn.Read(ctx)
		if err != nil {
			return printed, err
		}
		var m struct {
			Parent struct {
				ID string `json:"msg_id"`
			} `json:"parent_header"`
			Header struct {
				Type string `json:"msg_type"`
			}
			Content struct {
				Text, Evalue string
				State        string `json:"execution_state"`
			}
		}
		switch err := json.Unmarshal(text, &m); {
		case err != nil:
			return printed, err
		case m.Parent.ID != id:
		case m.Header.Type == "stream":
			printed += m.Content.Text
		case m.Header.Type == "error":
			return printed, errors.New(m.Content.Evalue)
		case m.Header.Type == "status" && m.Content.State == "idle":
			return printed, nil
		}
	}
}
