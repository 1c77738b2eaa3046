package agent

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/internal/tunnel"
)

func TestJob(t *testing.T) {
	r := newRig(t)
	if st, err := r.client.Status(t.Context()); err != nil || st.State != control.Idle {
		t.Fatalf("before the launch: %+v, %v", st, err)
	}
	for name, text := range map[string]string{"in.txt": "input", "empty": ""} {
		if err := r.client.Put(t.Context(), name, int64(len(text)), strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	app := shell(`cat in.txt; echo " $WORD"; echo out > out.txt; mkdir d; ln -s /etc/passwd link; mkfifo pipe; umask; exit 3`)
	app.Env = control.Env{"WORD": "word"}
	st := r.launch(t, app, control.Exited)
	if st.ExitCode != 3 || st.Reason != "" || st.MaxRSS == 0 || st.Started.IsZero() || st.Ended.Before(st.Started) {
		t.Errorf("status: %+v", st)
	}
	if diff := cmp.Diff([]control.File{{Name: "out.txt", Size: 4}}, st.Files); diff != "" {
		t.Error("outputs:", diff)
	}
	if got := r.log(t, 0, true); got != "input word\n0022\n" {
		t.Errorf("log: %q", got)
	}
	if got := r.log(t, 6, false); got != "word\n0022\n" {
		t.Errorf("log from 6: %q", got)
	}
	body, size, err := r.client.File(t.Context(), "out.txt")
	if err != nil || size != 4 {
		t.Fatal(size, err)
	}
	if b, err := io.ReadAll(body); string(b) != "out\n" || err != nil {
		t.Errorf("file: %q, %v", b, err)
	}
	_ = body.Close()
	for _, name := range []string{"link", "pipe", "d", "missing"} {
		if _, _, err := r.client.File(t.Context(), name); !errs.Is(err, errs.NotFound) {
			t.Errorf("file %s: %v", name, err)
		}
	}
	if err := r.client.Put(t.Context(), "late", 1, strings.NewReader("x")); !errs.Is(err, errs.Conflict) {
		t.Errorf("input after the launch: %v", err)
	}
	if err := r.client.End(t.Context()); err != nil {
		t.Fatal(err)
	}
	err = <-r.done
	r.done <- err
	if e, ok := errors.AsType[*ExitError](err); !ok || e.ExitCode() != 3 {
		t.Errorf("the agent ended with %v", err)
	}
}

func TestLaunchOnce(t *testing.T) {
	r := newRig(t)
	app := shell("echo started; sleep 600")
	r.launch(t, app, control.Ready)
	app.Launch = "l1"
	if err := r.client.Launch(t.Context(), app); err != nil {
		t.Errorf("the same launch again: %v", err)
	}
	app.Launch = "l2"
	if err := r.client.Launch(t.Context(), app); !errs.Is(err, errs.Conflict) {
		t.Errorf("another launch: %v", err)
	}
	if err := r.client.Launch(t.Context(), control.App{Launch: "l3"}); !errs.Is(err, errs.Invalid) {
		t.Errorf("a launch of nothing: %v", err)
	}
}

func TestCannotRun(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, test := range []struct {
		name, program string
		code          int
		says          string
	}{
		{"unknown", "no-such-program", 127, "check its spelling, and that the image or environment has it"},
		{"mode", write("plain", "#!/bin/sh\n", 0o644), 126, "chmod +x"},
		{"interpreter", write("script", "#!/no/such/shell\n", 0o755), 126, "interpreter"},
		{"format", write("noise", "\x00\x01noise", 0o755), 126, "built for this machine"},
		{"directory", dir, 126, "is a directory"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t)
			st := r.launch(t, control.App{Argv: []string{test.program}}, control.Exited)
			if st.ExitCode != test.code || !strings.Contains(st.Reason, test.program) || !strings.Contains(st.Reason, test.says) {
				t.Errorf("code %d, reason %q", st.ExitCode, st.Reason)
			}
			if got := r.log(t, 0, true); got != "" {
				t.Errorf("log: %q", got)
			}
		})
	}
}

func TestSignalIsTheReason(t *testing.T) {
	r := newRig(t)
	st := r.launch(t, shell("kill -SEGV $$"), control.Exited)
	if st.ExitCode != 139 || !strings.Contains(st.Reason, "signal 11") {
		t.Errorf("%+v", st)
	}
}

// An app that ignores the request to end is killed after its grace, with all that it started.
func TestStubborn(t *testing.T) {
	r := newRig(t)
	app := play("stubborn", nil)
	app.Grace = 50 * time.Millisecond
	r.launch(t, app, control.Ready)
	waitLog(t, r, "stubborn\n")
	r.cancel()
	err := <-r.done
	r.done <- err
	if e, ok := errors.AsType[*ExitError](err); !ok || e.Code != 137 {
		t.Errorf("the agent ended with %v", err)
	}
}

// waitLog reads the app's log until it begins with want.
func waitLog(t *testing.T, r *rig, want string) {
	t.Helper()
	body, err := r.client.Log(t.Context(), 0, true)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	b := make([]byte, len(want))
	if _, err := io.ReadFull(body, b); err != nil || string(b) != want {
		t.Fatalf("log: %q, %v", b, err)
	}
}

// The service may be killed and come back while an app runs: it finds the app as it was, and may launch it again in
// vain.
func TestServiceRestart(t *testing.T) {
	r := newRig(t)
	app := shell("echo one; while [ ! -e go ]; do sleep 0.02; done; echo two")
	app.Launch = "l1"
	before := r.launch(t, app, control.Ready)
	r.stop()
	r.serve(t)
	r.wait(t)
	if err := r.client.Launch(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	st := r.until(t, control.Ready)
	if !st.Started.Equal(before.Started) {
		t.Errorf("started %v, now %v", before.Started, st.Started)
	}
	if err := os.WriteFile(filepath.Join(r.cfg.WorkDir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := r.log(t, 0, true); got != "one\ntwo\n" {
		t.Errorf("log: %q", got)
	}
}

// An app on HTTP gets a port and a way to the Hub, and is reached by the app door with all that HTTP can do.
func TestHTTPApp(t *testing.T) {
	r := newRig(t)
	hub := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		_, _ = io.WriteString(w, "hub says "+q.URL.Path)
	})}
	door := r.links.Streams(tunnel.DoorHub) // before anybody knocks
	go func() { _ = hub.Serve(door) }()
	t.Cleanup(func() { _ = hub.Close() })
	app := play("web", control.Env{
		"JUPYTERHUB_SERVICE_URL":  "http://0.0.0.0:8888/user/alice/",
		"JUPYTERHUB_API_URL":      "http://hub.example:8081/hub/api",
		"JUPYTERHUB_ACTIVITY_URL": "https://hub.example/hub/api/users/alice/activity",
	})
	app.HTTP, app.Ready = true, "/user/alice/api"
	r.launch(t, app, control.Ready)

	web := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return r.links.Dial(ctx, workload, tunnel.DoorApp)
	}}}
	env := func(name string) string { return get(t, web, "http://app/user/alice/env/"+name) }
	if got := env("JUPYTERHUB_SERVICE_URL"); !strings.HasPrefix(got, "http://127.0.0.1:") || !strings.HasSuffix(got, "/user/alice/") || strings.Contains(got, "8888") {
		t.Errorf("service URL: %q", got)
	}
	api := env("JUPYTERHUB_API_URL")
	if got := get(t, http.DefaultClient, api+"/user"); got != "hub says /hub/api/user" {
		t.Errorf("the Hub by %s: %q", api, got)
	}
	if got := env("JUPYTERHUB_ACTIVITY_URL"); got != strings.TrimSuffix(api, "/hub/api")+"/hub/api/users/alice/activity" {
		t.Errorf("activity URL: %q", got)
	}
	if got := env("PATH"); got != "/usr/bin:/bin:"+r.cfg.BinDir {
		t.Errorf("PATH: %q", got)
	}
	if got := env(control.SocketEnv) + " " + env(control.IDEnv); got != r.cfg.APISocket+" "+workload {
		t.Errorf("socket and id: %q", got)
	}
	websocket(t, r)
}

func get(t *testing.T, c *http.Client, url string) string {
	t.Helper()
	res, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// websocket upgrades a connection, speaks both ways, ends its own direction and still gets the last word.
func websocket(t *testing.T, r *rig) {
	t.Helper()
	c, err := r.links.Dial(t.Context(), workload, tunnel.DoorApp)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = io.WriteString(c, "GET /user/alice/upgrade HTTP/1.1\r\nHost: app\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	head := make([]byte, len("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"))
	if _, err := io.ReadFull(c, head); err != nil || !bytes.Contains(head, []byte("101")) {
		t.Fatalf("%q, %v", head, err)
	}
	_, _ = io.WriteString(c, "frame")
	if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(c); string(b) != "framebye" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
}

// Programs of the workload reach the service by a socket that is only theirs.
func TestAPISocket(t *testing.T) {
	r := newRig(t)
	if st, err := os.Stat(r.cfg.APISocket); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v, %v", st, err)
	}
	type key struct{}
	api := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			_, _ = io.WriteString(w, q.Context().Value(key{}).(string))
		}),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, key{}, c.(interface{ WorkloadID() string }).WorkloadID())
		},
	}
	door := r.links.Streams(tunnel.DoorAPI) // before anybody knocks
	go func() { _ = api.Serve(door) }()
	t.Cleanup(func() { _ = api.Close() })
	inside := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", r.cfg.APISocket)
	}}}
	if got := get(t, inside, "http://slipway/api/v1/me"); got != workload {
		t.Errorf("the service sees %q", got)
	}
}

// An agent that is not the first process counts what it has started, and nothing else.
func TestCPUOfAJob(t *testing.T) {
	r := newRig(t)
	before, err := r.client.Activity(t.Context())
	if diff := cmp.Diff(control.Activity{Quiet: -1}, before); diff != "" || err != nil {
		t.Fatal(diff, err)
	}
	r.launch(t, play("burn", nil), control.Exited)
	eventually(t, "the CPU time of the app", func() bool {
		a, err := r.client.Activity(t.Context())
		if err != nil || a.Asked || a.CPU > 3*burnt {
			t.Fatalf("%+v, %v", a, err)
		}
		return a.CPU > burnt-0.05
	})
}
