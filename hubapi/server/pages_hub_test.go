package server

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"slipway/hubapi/hub"
	"slipway/hubapi/server/hubs"
	"slipway/internal/errs"
	"slipway/internal/hubtest"
	"slipway/internal/secret"
	"slipway/internal/testenv"
	"slipway/spawner"
)

// behindHub serves the pages behind a real Hub with its proxy.
func behindHub(t *testing.T, major int, base string, engine *fakeEngine) (*hubtest.Hub, *harness) {
	t.Helper()
	testenv.Need(t, hubtest.Parts(major)...)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	jh := hubtest.Start(t, hubtest.Options{Major: major, BaseURL: base, ServiceURL: "http://" + l.Addr().String(), Stopped: true})
	api, _ := url.Parse(jh.APIURL)
	public, _ := url.Parse(jh.URL)
	prefix := base + "services/slipway/"
	client := hub.New(hub.Config{APIURL: api, Service: "slipway", Token: secret.New(hubtest.ServiceToken)})
	var tokens sync.Map
	identify := func(ctx context.Context, token string) (hub.Identity, error) {
		id, err := client.Identify(ctx, token)
		if err == nil {
			tokens.Store(id.Name, token)
		}
		return id, err
	}
	h := start(t, engine, func(c *Config) {
		c.Hubs = []hubs.Hub{{
			Name: "main", APIURL: api, SpawnerToken: secret.New(hubtest.SpawnerToken), Identify: identify, Admins: []string{hubtest.Admin},
			PagesPrefix: prefix, OAuth: hub.OAuth{Client: client, Public: public, Redirect: prefix + "oauth_callback"},
		}}
	})
	h.tokenOf = func(user string) string { token, _ := tokens.Load(user); return fmt.Sprint(token) }
	srv := &http.Server{Handler: h.Public()}
	served := make(chan struct{})
	go func() { defer close(served); _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close(); <-served })
	jh.Restart() // it looks for the service when it starts
	return jh, h
}

func TestPagesBehindARealHub(t *testing.T) {
	for major, base := range map[int]string{5: "/", 6: "/some/base/"} {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			mine, hers := lab("s-alice", "alice", base+"user/alice/"), lab("s-bob", "bob", base+"user/bob/")
			jh, h := behindHub(t, major, base, newFake(mine, hers, job("j-alice", "alice")))
			alice := jh.Browse("alice")
			list := alice.Get("/services/slipway/")
			if list.Status != http.StatusOK || !strings.Contains(string(list.Body), "sessions/s-alice") || strings.Contains(string(list.Body), "s-bob") {
				t.Fatalf("alice's list: %s", list.Text())
			}
			if r := alice.Get("/services/slipway/sessions/s-bob"); r.Status != http.StatusNotFound {
				t.Errorf("alice sees bob's session: %s", r.Text())
			}
			token := formToken(t, string(list.Body))
			if r := alice.Post("/services/slipway/sessions/s-alice/stop", url.Values{"token": {token}}); r.Status != http.StatusOK {
				t.Errorf("stop: %s", r.Text())
			}
			if w := h.engine.work["s-alice"]; w.Phase != spawner.Stopped {
				t.Errorf("the session is %s", w.Phase)
			}
			deep := jh.Browse("root").Get("/services/slipway/?all=1")
			if deep.Status != http.StatusOK || !strings.Contains(string(deep.Body), "s-bob") {
				t.Errorf("the administrator's list after the login: %s", deep.Text())
			}
			if r := jh.Browse("carol").Get("/hub/spawn"); !strings.Contains(string(r.Body), "3 free now") {
				t.Errorf("the spawn page: %s", r.Text())
			}
			// The Hub takes back what it gave for a login when its user logs out; the answer to that is remembered for
			// seconds only.
			alice.Get("/hub/logout")
			api, _ := url.Parse(jh.APIURL)
			if id, err := hub.New(hub.Config{APIURL: api, Service: "slipway"}).Identify(t.Context(), h.tokenOf("alice")); !errs.Is(err, errs.Unauthorized) {
				t.Errorf("after the logout at the Hub: %+v, %v", id, err)
			}
		})
	}
}
