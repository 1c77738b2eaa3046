package hub

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/errs"
	"slipway/internal/secret"
)

func TestPostEvent(t *testing.T) {
	for _, tc := range []struct{ user, server, want string }{
		{"alice", "x", "/users/progress/events/alice/x"},
		{"has@", "", "/users/progress/events/has@"}, // with a slash behind it the Hub would not know the path
		{"a/b", "ü y", "/users/progress/events/a%2Fb/%C3%BC%20y"},
		{"..", "..", "/users/progress/events/%2E%2E/%2E%2E"},
	} {
		c, a := answering(t, http.StatusNoContent, "")
		err := c.PostEvent(t.Context(), tc.user, tc.server, secret.New("servers-token"), Event{Percent: 10, Message: "a<b", HTML: "a&lt;b"})
		want := asked{
			"POST", "/hub/api" + tc.want, "", "token servers-token", "application/json",
			`{"progress":10,"message":"a\u003cb","html_message":"a\u0026lt;b"}`,
		}
		if d := cmp.Diff(want, *a, cmp.AllowUnexported(asked{})); d != "" || err != nil {
			t.Error(err, d)
		}
	}
	c, a := answering(t, http.StatusNoContent, "")
	if err := c.PostEvent(t.Context(), "", "x", secret.New("t"), Event{}); !errs.Is(err, errs.Invalid) || a.method != "" {
		t.Errorf("nobody: %v", err)
	}
}

// The Hub answers a failure only when it has stopped the server.
func TestAFailureMayTakeItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := overRounds(func(r *http.Request) (*http.Response, error) {
			select {
			case <-r.Context().Done():
				return nil, r.Context().Err()
			case <-time.After(30 * time.Second):
				return response(http.StatusNoContent, http.NoBody), nil
			}
		})
		if err := c.PostEvent(t.Context(), "alice", "", secret.New("t"), Event{Failed: true}); err != nil {
			t.Error(err)
		}
		if err := c.PostEvent(t.Context(), "alice", "", secret.New("t"), Event{}); !errs.Is(err, errs.Unavailable) {
			t.Error(err)
		}
	})
}

func TestAnEventIsPostedOnce(t *testing.T) {
	for status, kind := range map[int]errs.Kind{400: errs.Invalid, 403: errs.Forbidden, 404: errs.NotFound, 500: errs.Unavailable, 503: errs.Unavailable} {
		n := 0
		c := overRounds(func(*http.Request) (*http.Response, error) { n++; return response(status, http.NoBody), nil })
		err := c.PostEvent(t.Context(), "a", "", secret.New("servers-token"), Event{Percent: 100, HTML: "x", Failed: true})
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
