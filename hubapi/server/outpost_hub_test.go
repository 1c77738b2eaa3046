package server

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"slipway/hubapi/server/hubs"
	"slipway/internal/hubtest"
	"slipway/internal/secret"
	"slipway/internal/testenv"
	"slipway/spawner"
)

// outpostHub runs a real Hub whose Spawner is the published OutpostSpawner, unchanged. Sessions lead to an app that
// tells its path.
func outpostHub(t *testing.T, engine *fakeEngine) (*hubtest.Hub, *harness) {
	t.Helper()
	testenv.Need(t, hubtest.Parts(6)...)
	app, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	front, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	jh := hubtest.Start(t, hubtest.Options{Major: 6, Spawner: hubtest.Outpost, ServiceURL: "http://" + front.Addr().String(), BaseURL: "/base/", Stopped: true})
	h := start(t, engine, func(c *Config) {
		api, _ := url.Parse(jh.APIURL)
		c.Hubs = []hubs.Hub{{Name: "main", APIURL: api, Identify: fakeIdentify, Outpost: []hubs.Credential{{Username: hubtest.OutpostUser, Password: secret.New(hubtest.OutpostPassword)}}}}
		c.Dial = func(ctx context.Context, _ spawner.ID) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", app.Addr().String())
		}
	})
	servers := []*http.Server{{Handler: h.Public()}, {Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Jupyterhub-Version", "6")
		fmt.Fprint(w, "the app at ", r.URL.Path)
	})}}
	served := make(chan struct{})
	for i, l := range []net.Listener{front, app} {
		go func() { _ = servers[i].Serve(l); served <- struct{}{} }()
	}
	t.Cleanup(func() {
		for _, srv := range servers {
			_ = srv.Close()
			<-served
		}
	})
	jh.Restart()
	return jh, h
}

// begun waits until the engine has been asked for a session of this server.
func (f *fakeEngine) begun(t *testing.T, user spawner.User, name string) spawner.Workload {
	t.Helper()
	for {
		f.mu.Lock()
		changed := f.changed
		for _, w := range f.work {
			if w.Owner == user && w.Name == name && w.Phase == spawner.Pending {
				f.mu.Unlock()
				return w
			}
		}
		f.mu.Unlock()
		select {
		case <-changed:
		case <-time.After(testenv.Hang):
			t.Fatalf("server %q of %s was not asked for", name, user)
		}
	}
}

// The package that is published now imports what a Hub of version 5 does not have: it runs in one of version 6 alone.
func TestOutpostSpawnerOfARealHub(t *testing.T) {
	engine := newFake()
	jh, h := outpostHub(t, engine)
	for _, name := range []string{"", "lab"} {
		if r := jh.StartServer("alice", name, map[string]any{"flavor": "small"}); r.Status != http.StatusAccepted {
			t.Fatalf("start %q: %s", name, r.Text())
		}
		w := engine.begun(t, "alice", name)
		if w.Spec.Profile != "small" || w.Spec.EventsURL == "" || !strings.HasPrefix(w.Spec.Prefix, "/base/user/alice/") {
			t.Errorf("asked for %+v", w.Spec)
		}
		w.Phase = spawner.Running // while the Hub asks whether it is
		engine.set(w)
		if s := jh.WaitReady("alice", name); !s.Ready {
			t.Errorf("%+v", s)
		}
		if r := jh.Through(jh.Token("alice"), http.MethodGet, w.Spec.Prefix+"tree", nil); r.Text() != "200 the app at "+w.Spec.Prefix+"tree" {
			t.Errorf("through the Hub's proxy: %s", r.Text())
		}
	}
	jh.Kill() // it asks for every server when it is back
	jh.Restart()
	for _, name := range []string{"", "lab"} {
		jh.WaitReady("alice", name)
		jh.StopServer("alice", name)
		jh.WaitStopped("alice", name)
	}
	for id, w := range engine.work {
		if w.Phase.Active() {
			t.Errorf("%s is %s", id, w.Phase)
		}
	}
	if r := jh.StartServer("alice", "", map[string]any{"flavor": "huge"}); r.Status != http.StatusAccepted && r.Status < 400 {
		t.Fatalf("start of an unknown flavor: %s", r.Text())
	}
	told := fmt.Sprint(jh.Progress("alice", ""))
	if want := `slipway.Invalid: flavor: "huge" is not valid: one of small`; !strings.Contains(told, want) {
		t.Errorf("the progress page says %s\nwant %s", told, want)
	}
	jh.WaitStopped("alice", "")
	jh.StartServer("alice", "", map[string]any{"flavor": "small"}) // the Hub would repeat the other
	again := engine.begun(t, "alice", "")
	again.Phase = spawner.Running
	engine.set(again)
	jh.WaitReady("alice", "")
	if log := h.logged.String(); strings.Contains(log, hubtest.OutpostPassword) || strings.Contains(log, "panic") {
		t.Error("the log has a password or a panic")
	}
}
