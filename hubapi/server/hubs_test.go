package server

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"slipway/hubapi"
	"slipway/hubapi/server/hubs"
	"slipway/internal/errs"
	"slipway/internal/secret"
	"slipway/spawner"
)

// TestHubsOfTheirOwnListeners: two hubs with the same base path, one of them with a listener of its own. What is asked
// there concerns that hub alone: its Spawner, its users, its sessions.
func TestHubsOfTheirOwnListeners(t *testing.T) {
	mine, hers := lab("s-main", "alice", "/user/alice/"), lab("s-other", "alice", "/user/alice/")
	hers.Hub = "other"
	h := start(t, newFake(mine, hers), func(c *Config) {
		other := c.Hubs[0]
		other.Name, other.SpawnerToken = "other", secret.New("the-other-spawner-token")
		c.Hubs = append(c.Hubs, other)
		c.Dial = func(_ context.Context, id spawner.ID) (net.Conn, error) {
			return nil, errs.New(errs.Unavailable, "no link")
		}
	})
	common, own := listener(t), listener(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- h.Run(ctx, Listeners{Public: common, Hubs: map[string]net.Listener{"other": own}}) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	for at, want := range map[net.Listener]string{common: "s-main", own: "s-other"} {
		for token, sees := range map[string]string{spawnerToken: "s-main", "the-other-spawner-token": "s-other"} {
			client, err := hubapi.NewClient(hubapi.ClientConfig{URL: "http://" + at.Addr().String(), Token: hubapi.Token(token)})
			if err != nil {
				t.Fatal(err)
			}
			list, err := client.Sessions(t.Context(), "", "")
			if sees != want {
				if !errs.Is(err, errs.Unauthorized) {
					t.Errorf("the Spawner of %s is taken at the listener of %s: %v", sees, want, err)
				}
			} else if err != nil || len(list) != 1 || list[0].ID != want {
				t.Errorf("the Spawner of %s sees %+v, %v", want, list, err)
			}
		}
		resp, err := http.Get("http://" + at.Addr().String() + "/user/alice/lab")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	for _, id := range []string{"s-main", "s-other"} {
		if !strings.Contains(h.logged.String(), "visitor of "+id) {
			t.Errorf("no visitor has come to %s", id)
		}
	}
}

func listener(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestSessionPrefixIsOfItsHub(t *testing.T) {
	for _, tt := range []struct {
		api, prefix, want string
	}{
		{"/hub/api", "/user/alice/", "/user/alice/"},
		{"/hub/api/", "/user/has%40/my%20lab/", "/user/has@/my lab/"},
		{"/jh/hub/api", "/jh/user/alice/", "/jh/user/alice/"},
		{"/jh/hub/api", "/user/alice/", ""},
		{"/hub/api", "/jh/user/alice/", ""},
		{"/hub/api", "/user/", ""},
		{"/hub/api", "/api/v1/user/x/", ""},
		{"/hub/api", "/services/user/x/", ""},
		{"/hub/api", "/user/../services/x/", ""},
		{"/hub/api", "/user/alice", ""},
		{"/hub/api", "/user//", ""},
		{"/hub/api", "/user/a?b/", ""},
		{"/hub/api", "/user/%zz/", ""},
		{"/hub/api", "", ""},
	} {
		got, err := hubs.Hub{APIURL: &url.URL{Path: tt.api}}.SessionPrefix(tt.prefix)
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%s of a hub at %s: %q, %v", tt.prefix, tt.api, got, err)
		}
	}
}
