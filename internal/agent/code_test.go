package agent

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/agent/authproxy"
	"slipway/internal/agent/control"
	"slipway/internal/tunnel"
)

// playCode is as much of code-server as the agent needs.
func playCode() {
	at := slices.Index(os.Args, "--socket")
	l, err := net.Listen("unix", os.Args[at+1])
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("code-server listens")
	m := http.NewServeMux()
	m.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	m.HandleFunc("/env/{name}", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, os.Getenv(r.PathValue("name"))) })
	m.HandleFunc("/die", func(http.ResponseWriter, *http.Request) { os.Exit(3) })
	m.HandleFunc("/upgrade", upgrade)
	m.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, os.Getpid(), r.URL.RequestURI(), os.Getenv("JUPYTERHUB_API_TOKEN"), strings.Join(os.Args[1:], " "))
	})
	_ = http.Serve(l, m)
}

// studio is a rig with a Hub, in whose sessions there may be code-server.
type studio struct {
	*rig
	env control.Env
}

func newStudio(t *testing.T, installed bool) studio {
	s := studio{rig: newRig(t, func(c *Config) { c.CodeDir = filepath.Join(filepath.Dir(c.WorkDir), "code") })}
	bin := filepath.Join(s.dir, "image")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\nSLIPWAY_TEST_PLAY=code exec " + executable(t) + ` "$@"` + "\n"
	if installed {
		if err := os.WriteFile(filepath.Join(bin, "code-server"), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s.env = control.Env{
		"PATH": bin + ":/usr/bin:/bin", "HOME": filepath.Join(s.dir, "home"), "SLIPWAY_TEST_PLAY": "web",
		"JUPYTERHUB_SERVICE_PREFIX": "/user/alice/", "JUPYTERHUB_CLIENT_ID": "jupyterhub-user-alice", "JUPYTERHUB_API_TOKEN": "own",
		"JUPYTERHUB_API_URL": "https://hub.example/hub/api", "JUPYTERHUB_OAUTH_ACCESS_SCOPES": `["access:servers!server=alice/"]`,
	}
	hub := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/hub/api/":
			_, _ = io.WriteString(w, `{"version":"6.1.1"}`)
		case r.URL.Path == "/hub/api/user" && r.Header.Get("Authorization") == "token alices":
			_, _ = io.WriteString(w, `{"name":"alice","scopes":["access:servers!server=alice/"]}`)
		default:
			w.WriteHeader(http.StatusForbidden)
		}
	})}
	streams := s.links.Streams(tunnel.DoorHub)
	go func() { _ = hub.Serve(streams) }()
	t.Cleanup(func() { _ = hub.Close() })
	return s
}

func (s studio) web(door tunnel.Door) *http.Client {
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return s.links.Dial(ctx, workload, door)
		}},
	}
}

// get asks at a door, with a token unless it is empty.
func (s studio) get(t *testing.T, door tunnel.Door, path, token string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://hub.example"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "token "+token)
	}
	res, err := s.web(door).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(b)
}

func TestCodeIsTheApp(t *testing.T) {
	s := newStudio(t, true)
	s.launch(t, control.App{Argv: []string{"code-server", "/folder"}, Env: s.env, HTTP: true, Code: true, Ready: "/user/alice/api"}, control.Ready)
	if status, body := s.get(t, tunnel.DoorApp, "/user/alice/api", ""); status != http.StatusOK || !strings.Contains(body, "6.1.1") {
		t.Errorf("the Hub's question: %d %s", status, body)
	}
	status, body := s.get(t, tunnel.DoorApp, "/user/alice/x?y", "alices")
	for _, part := range []string{" /x?y  --socket " + filepath.Join(s.dir, "code/code.sock"), "--socket-mode 600 --auth none", "--disable-telemetry", " /folder\n"} {
		if status != http.StatusOK || !strings.Contains(body, part) {
			t.Errorf("alice's: %d %s, want %s", status, body, part)
		}
	}
	for _, token := range []string{"", "bobs"} {
		if status, body := s.get(t, tunnel.DoorApp, "/user/alice/", token); status != http.StatusForbidden {
			t.Errorf("token %q: %d %s", token, status, body)
		}
	}
	if a, err := s.rig.client.Activity(t.Context()); err != nil || !a.Asked {
		t.Errorf("%+v, %v", a, err)
	}
	if _, body := s.get(t, tunnel.DoorApp, "/user/alice/env/SLIPWAY_CODE_DATA", "alices"); body != filepath.Join(s.dir, "code/data") {
		t.Errorf("its data lie in %s", body)
	}
	if st, err := os.Stat(filepath.Join(s.dir, "code")); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("the directory of its socket: %v, %v", st, err)
	}
	settings := filepath.Join(s.dir, "home/.local/share/code-server/User")
	if to, err := os.Readlink(filepath.Join(s.dir, "code/data/User")); err != nil || to != settings {
		t.Errorf("its settings lie in %s: %v", to, err)
	}
	s.get(t, tunnel.DoorApp, "/user/alice/die", "alices")
	s.until(t, control.Exited)
	if status, body := s.get(t, tunnel.DoorApp, "/user/alice/", "alices"); status != http.StatusServiceUnavailable || !strings.Contains(body, "VS Code has ended, and the session ends with it") {
		t.Errorf("after its end: %d %s", status, body)
	}
}

func TestCodeNeedsAHub(t *testing.T) {
	s := newStudio(t, true)
	env := maps.Clone(s.env)
	delete(env, "JUPYTERHUB_CLIENT_ID")
	st := s.launch(t, control.App{Argv: []string{"code-server"}, Env: env, HTTP: true, Code: true}, control.Exited)
	if st.ExitCode != 126 || !strings.Contains(st.Reason, "JUPYTERHUB_CLIENT_ID") {
		t.Errorf("%+v", st)
	}
}

// Beside another app code-server is started when somebody asks for it who may, again when it has died, and is ended
// with the session.
func TestCodeBesideAnApp(t *testing.T) {
	s := newStudio(t, true)
	s.launch(t, control.App{Argv: []string{"/proc/self/exe"}, Env: s.env, HTTP: true, Ready: "/user/alice/env/x"}, control.Ready)
	if status, _ := s.get(t, tunnel.DoorCode, "/user/alice/vscode/", ""); status != http.StatusForbidden {
		t.Errorf("a stranger: %d", status)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "code")); err == nil {
		t.Error("it was started for a stranger")
	}
	pid := func() (pid int) {
		status, body := s.get(t, tunnel.DoorCode, "/user/alice/vscode/x", "alices")
		if _, err := fmt.Sscan(body, &pid); err != nil || status != http.StatusOK || !strings.Contains(body, " /x  --socket ") {
			t.Fatalf("alice's: %d %s", status, body)
		}
		return pid
	}
	first := pid()
	if again := pid(); again != first {
		t.Errorf("process %d, then %d", first, again)
	}
	if status, body := s.get(t, tunnel.DoorApp, "/user/alice/env/HOME", ""); status != http.StatusOK || body != s.env["HOME"] {
		t.Errorf("the app itself: %d %s", status, body)
	}
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it has died", func() bool { return syscall.Kill(first, 0) != nil })
	eventually(t, "it is seen", func() bool { return pid() != first })
	second := pid()
	if log := s.log(t, 0, false); strings.Count(log, "code-server listens") != 2 {
		t.Errorf("the session's log: %q", log)
	}
	if err := s.rig.client.End(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is ended with the session", func() bool { return syscall.Kill(second, 0) != nil })
}

func TestImageWithoutCode(t *testing.T) {
	s := newStudio(t, false)
	s.launch(t, control.App{Argv: []string{"/proc/self/exe"}, Env: s.env, HTTP: true, Ready: "/user/alice/env/x"}, control.Ready)
	if status, body := s.get(t, tunnel.DoorCode, "/user/alice/vscode/", "alices"); !strings.Contains(body, "has no VS Code") || status == http.StatusOK {
		t.Errorf("%d %s", status, body)
	}
}

func TestNoHubNoCode(t *testing.T) {
	s := newStudio(t, true)
	s.launch(t, control.App{Argv: []string{"/proc/self/exe"}, Env: control.Env{"SLIPWAY_TEST_PLAY": "web", servicePrefix: "/user/alice/"}, HTTP: true, Ready: "/user/alice/env/x"}, control.Ready)
	if status, body := s.get(t, tunnel.DoorCode, "/user/alice/vscode/", "alices"); status != http.StatusNotFound {
		t.Errorf("%d %s", status, body)
	}
}

// What is not used is ended, but not while somebody may have left work in it.
func TestUnusedCode(t *testing.T) {
	now := time.Now()
	run := &beside{pid: os.Getpid(), over: make(chan struct{})}
	g, err := authproxy.New(authproxy.Config{Logger: slog.New(slog.DiscardHandler), Env: func(name string) string {
		return map[string]string{
			servicePrefix: "/x/", "JUPYTERHUB_CLIENT_ID": "c", "JUPYTERHUB_API_TOKEN": "t", "JUPYTERHUB_API_URL": "http://hub/", "JUPYTERHUB_OAUTH_ACCESS_SCOPES": `["a"]`,
		}[name]
	}})
	if err != nil {
		t.Fatal(err)
	}
	c := &code{gate: g, run: run, used: now}
	if c.unused(now.Add(codeUnused-time.Second)) != nil || c.unused(now.Add(codeUnused)) != run {
		t.Error("it is ended after another time")
	}
	close(run.over)
	if c.unused(now.Add(codeUnused)) != nil {
		t.Error("what has ended is to be ended")
	}
	proc := t.TempDir()
	process := func(pid, parent int, exe string) {
		dir := filepath.Join(proc, fmt.Sprint(pid))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "stat"), fmt.Appendf(nil, "%d (x) S %d %s", pid, parent, strings.Repeat("0 ", 20)), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(exe, filepath.Join(dir, "exe")); err != nil {
			t.Fatal(err)
		}
	}
	process(10, 1, "/bin/node")
	process(11, 10, "/bin/node")
	process(20, 1, "/bin/bash")
	if !onlyItself(proc, 10) || onlyItself(proc, 12) {
		t.Error("a server alone")
	}
	process(12, 11, "/bin/bash")
	if onlyItself(proc, 10) {
		t.Error("its terminal is not seen")
	}
}

// Work in VS Code is activity of the session; that a page of it is open is none.
func TestEditorsActivity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLookout(func() *jupyter { return nil }, func() (int, time.Time) { return 0, time.Time{} }, func() float64 { return 0 }, slog.New(slog.DiscardHandler))
		now := authproxy.Traffic{Open: 4}
		var shown time.Time
		l.editors, l.printed = func() (authproxy.Traffic, bool) { return now, true }, func() time.Time { return shown }
		if a := l.activity(t.Context()); a != (control.Activity{Asked: true, Editors: 2, Quiet: -1}) {
			t.Errorf("two open pages: %+v", a)
		}
		<-time.After(time.Minute)
		now.Acted = time.Now()
		<-time.After(time.Minute)
		if a := l.activity(t.Context()); a.Quiet != 60 {
			t.Errorf("a minute after work: %+v", a)
		}
		shown = time.Now().Add(-10 * time.Second)
		<-time.After(fresh)
		if a := l.activity(t.Context()); a.Quiet != 12 {
			t.Errorf("after a terminal has shown something: %+v", a)
		}
		<-time.After(time.Minute + 300*time.Millisecond)
		l.speak(t.Context(), func() { shown = time.Now().Truncate(time.Second) })
		<-time.After(fresh)
		if a := l.activity(t.Context()); a.Quiet < 70 {
			t.Errorf("after a notice on it: %+v", a)
		}
	})
}
