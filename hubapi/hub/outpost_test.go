package hub

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/errs"
	"slipway/internal/secret"
)

func TestEventsGoToTheHubAlone(t *testing.T) {
	for _, tc := range []struct{ address, want string }{
		{"http://hub:8081/hub/api/users/progress/events/alice/x", "/users/progress/events/alice/x"},
		{"https://public.example/jupyter/hub/api/users/progress/events/has@", "/users/progress/events/has@"},
		{"http://hub/hub/api/users/progress/events/alice/", "/users/progress/events/alice/"},
		{"http://hub/hub/api/users/progress/events/a%2Fb/%C3%BC", "/users/progress/events/a%2Fb/%C3%BC"},
		{"http://169.254.169.254/latest/users/progress/events/alice?x=1#y", "/users/progress/events/alice"},
		{"http://user:pass@hub/hub/api/users/progress/events/alice", "/users/progress/events/alice"},
		{"http://hub/hub/api/shutdown", ""},
		{"http://hub/hub/api/users/progress/events/", ""},
		{"http://hub/hub/api/users/progress/events/../../../shutdown", ""},
		{"http://hub/hub/api/users/progress/events/%2E%2E/x", ""},
		{"http://hub/hub/api/users/progress/events/alice/..", ""},
		{"http://hub/hub/api/users/progress/events/alice/x/y", ""},
		{"http://hub/hub/api/users/progress/events//x", ""},
		{"file:///hub/api/users/progress/events/alice", ""},
		{"/hub/api/users/progress/events/alice", ""},
		{"gopher://hub/hub/api/users/progress/events/alice", ""},
		{"http://hub/%zz", ""},
		{"", ""},
	} {
		c, a := answering(t, http.StatusNoContent, "")
		err := c.PostEvent(t.Context(), tc.address, secret.New("servers-token"), Event{Percent: 10, Message: "step"})
		if tc.want == "" {
			if !errs.Is(err, errs.Invalid) || a.method != "" {
				t.Errorf("%s: %v, %+v", tc.address, err, a)
			}
			continue
		}
		want := asked{"POST", "/hub/api" + tc.want, "", "token servers-token", "application/json", `{"progress":10,"message":"step"}`}
		if d := cmp.Diff(want, *a, cmp.AllowUnexported(asked{})); d != "" || err != nil {
			t.Error(tc.address, err, d)
		}
	}
}

func TestAnEventIsPostedOnce(t *testing.T) {
	for status, kind := range map[int]errs.Kind{400: errs.Invalid, 403: errs.Forbidden, 404: errs.NotFound, 500: errs.Unavailable, 503: errs.Unavailable} {
		n := 0
		c := overRounds(func(*http.Request) (*http.Response, error) { n++; return response(status, http.NoBody), nil })
		err := c.PostEvent(t.Context(), "http://hub/hub/api/users/progress/events/a", secret.New("servers-token"), Event{Percent: 100, HTML: "x", Failed: true})
		if !errs.Is(err, kind) || n != 1 || strings.Contains(err.Error(), "servers-token") {
			t.Errorf("%d: %v after %d", status, err, n)
		}
	}
}

func TestPostFlavors(t *testing.T) {
	c, a := answering(t, 200, "")
	at := c.api + "/outpostflavors/slipway"
	if err := c.PostFlavors(t.Context(), at, map[string]any{"small": map[string]int{"max": -1}}); err != nil || a.path != "/hub/api/outpostflavors/slipway" {
		t.Errorf("%v, %+v", err, a)
	}
	if a.token != "token "+ownToken || a.body != `{"small":{"max":-1}}` {
		t.Errorf("%+v", a)
	}
}

func FuzzEventsPath(f *testing.F) {
	f.Add("http://hub:8081/hub/api/users/progress/events/alice/x")
	f.Add("http://hub/users/progress/events/%2e%2e/users/progress/events/x")
	f.Fuzz(func(t *testing.T, address string) {
		path, err := eventsPath(address)
		if err == nil && (!strings.HasPrefix(path, eventsDoor) || strings.Contains(path, "..") && strings.Contains(path, "/../")) {
			t.Errorf("%q leads to %q", address, path)
		}
	})
}
