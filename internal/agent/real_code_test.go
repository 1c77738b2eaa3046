package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ws "github.com/coder/websocket"

	"slipway/internal/agent/control"
	"slipway/internal/testenv"
	"slipway/internal/tunnel"
)

// tab is a page in a headless Chromium.
type tab struct {
	*ws.Conn
	last int
}

// openTab opens a page and waits until it shows what a selector finds.
func openTab(t *testing.T, url, selector string) *tab {
	t.Helper()
	dir, err := os.MkdirTemp("", "browser")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
		"--no-first-run", "--disable-sync", "--disable-component-update", "--disable-dev-shm-usage", "--remote-debugging-port=0", "--user-data-dir="+dir, url)
	t.Cleanup(func() { // its children, which end with it, write to its directory
		testenv.Until(t, "its directory is gone", testenv.Hang, func() bool { return os.RemoveAll(dir) == nil })
	})
	browser := testenv.Start(t, cmd)
	p := &tab{}
	browser.Until("its page is there", func() bool {
		p.Conn = dialTab(t, filepath.Join(dir, "DevToolsActivePort"), url)
		return p.Conn != nil
	})
	t.Cleanup(func() { _ = p.CloseNow() })
	p.SetReadLimit(64 << 20)
	p.until(t, selector)
	return p
}

// dialTab opens the connection to a page's debugger; nil while there is none.
func dialTab(t *testing.T, file, url string) *ws.Conn {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	port, _, _ := strings.Cut(string(b), "\n")
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+port+"/json/list", nil)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil
	}
	defer res.Body.Close()
	var pages []struct{ URL, WebSocketDebuggerURL string }
	_ = json.NewDecoder(res.Body).Decode(&pages)
	for _, each := range pages {
		if strings.HasPrefix(each.URL, url) {
			c, _, err := ws.Dial(t.Context(), each.WebSocketDebuggerURL, nil)
			if err == nil {
				return c
			}
		}
	}
	return nil
}

// do has the browser do something, by Chrome's DevTools protocol, and gives the answer.
func (p *tab) do(t *testing.T, method string, params map[string]any) string {
	t.Helper()
	p.last++
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	b, _ := json.Marshal(map[string]any{"id": p.last, "method": method, "params": params})
	if err := p.Write(ctx, ws.MessageText, b); err != nil {
		t.Fatal(err)
	}
	for {
		_, b, err := p.Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(b, fmt.Appendf(nil, `"id":%d,`, p.last)) {
			return string(b)
		}
	}
}

func (p *tab) until(t *testing.T, selector string) {
	t.Helper()
	look := fmt.Sprintf("!!document.querySelector(%q)", selector)
	testenv.Until(t, selector, 3*time.Minute, func() bool {
		return strings.Contains(p.do(t, "Runtime.evaluate", map[string]any{"expression": look}), `"value":true`)
	})
}

// press presses a key, with Control and Shift if they are asked for.
func (p *tab) press(t *testing.T, key, code string, number, modifiers int) {
	t.Helper()
	for _, kind := range []string{"rawKeyDown", "keyUp"} {
		p.do(t, "Input.dispatchKeyEvent", map[string]any{"type": kind, "key": key, "code": code, "windowsVirtualKeyCode": number, "modifiers": modifiers})
	}
}

// newCodeSession starts code-server in a container, and gives an address at which a browser is let in.
func newCodeSession(t *testing.T) (*container, string) {
	t.Helper()
	c := newContainerOf(t, testenv.CodeImage)
	hub := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"name":"alice","version":"6.1.1","scopes":["access:servers!server=alice/"]}`)
	})}
	go func() { _ = hub.Serve(c.links.Streams(tunnel.DoorHub)) }()
	t.Cleanup(func() { _ = hub.Close() })
	app := control.App{Argv: []string{"code-server", "/tmp"}, HTTP: true, Code: true, Ready: jupyterPrefix + "api", Dir: "/tmp", Env: control.Env{
		"JUPYTERHUB_SERVICE_PREFIX": jupyterPrefix, "JUPYTERHUB_CLIENT_ID": "jupyterhub-user-alice", "JUPYTERHUB_API_TOKEN": "own",
		"JUPYTERHUB_API_URL": "https://hub.example/hub/api", "JUPYTERHUB_OAUTH_ACCESS_SCOPES": `["access:servers!server=alice/"]`, "HOME": "/tmp",
	}}
	c.launch(t, app, control.Ready)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	front := &http.Server{Handler: &httputil.ReverseProxy{Transport: c.web.Transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", r.In.Host, r.In.Host
		r.Out.Header.Set("Authorization", "token alices")
	}}}
	go func() { _ = front.Serve(l) }()
	t.Cleanup(func() { _ = front.Close() })
	return c, "http://" + l.Addr().String() + jupyterPrefix
}

// A page of VS Code in a real browser: that it is open is no activity, and what its terminal prints is.
func TestRealCode(t *testing.T) {
	testenv.Need(t, testenv.Docker, testenv.Code, testenv.Chromium)
	t.Parallel()
	c, url := newCodeSession(t)
	const patience = 3 * time.Minute // of a busy machine's page
	p := openTab(t, url, ".monaco-workbench .explorer-viewlet")
	testenv.Until(t, "an open page that nobody uses", patience, func() bool {
		a := c.activity(t)
		return a.Editors == 1 && a.Quiet >= 20
	})
	const controlShift = 2 | 8
	p.press(t, "~", "Backquote", 192, controlShift)
	p.until(t, ".terminal-wrapper.active .terminal-command-decoration")
	p.do(t, "Input.insertText", map[string]any{"text": "while :; do date | tee -a /tmp/dates; sleep 3; done"})
	p.press(t, "Enter", "Enter", 13, 0)
	p.do(t, "Input.dispatchKeyEvent", map[string]any{"type": "char", "text": "\r"})
	testenv.Until(t, "a terminal that prints", patience, func() bool {
		return strings.Count(docker(t, "exec", c.name, "sh", "-c", "touch /tmp/dates; cat /tmp/dates"), "\n") >= 10
	})
	eventually(t, "a terminal that prints is activity", func() bool {
		a := c.activity(t)
		return a.Quiet >= 0 && a.Quiet <= 20
	})
}
