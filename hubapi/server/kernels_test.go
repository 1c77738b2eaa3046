package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"

	"slipway/hubapi/server/hubs"
	"slipway/kernels"
	"slipway/spawner"
)

func TestKernelsKnowTheirCaller(t *testing.T) {
	h := start(t, newFake(), func(c *Config) {
		c.Kernels = func(identify func(*http.Request) (spawner.Caller, error), _ func(context.Context, kernels.Deed)) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				who, err := identify(r)
				fmt.Fprintf(w, "%s %s as %q: %v", r.Method, r.URL.Path, who.User, err)
			})
		}
	})
	for _, tc := range []struct{ token, want string }{
		{"alice-token", `GET /kernels/api/kernels/x as "alice": <nil>`}, {"guessed", `as "": unknown token`}, {"", `as "": nobody is known`},
	} {
		r, err := http.NewRequest(http.MethodGet, h.front.URL+"/kernels/api/kernels/x", nil)
		if err != nil {
			t.Fatal(err)
		}
		if tc.token != "" {
			r.Header.Set("Authorization", "token "+tc.token)
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if !strings.Contains(string(body), tc.want) {
			t.Errorf("%q: %s", tc.token, body)
		}
	}
	if logged := h.logged.String(); strings.Contains(logged, "alice-token") || strings.Contains(logged, "guessed") {
		t.Error("a token is in the log")
	}
}

// TestKernelsThroughTheHub: who reaches no more than the Hub's proxy has kernels below the service's prefix there.
func TestKernelsThroughTheHub(t *testing.T) {
	h := start(t, newFake(), func(c *Config) {
		c.Hubs[0].PagesPrefix, c.Hubs[0].OAuth = "/services/slipway/", noOAuth{}
		c.Kernels = func(identify func(*http.Request) (spawner.Caller, error), _ func(context.Context, kernels.Deed)) http.Handler {
			r := chi.NewRouter()
			r.Get("/api/kernels/{id}", func(w http.ResponseWriter, r *http.Request) {
				who, err := identify(r)
				fmt.Fprintf(w, "%s as %q: %v", chi.URLParam(r, "id"), who.User, err)
			})
			return r
		}
	})
	r, err := http.NewRequest(http.MethodGet, h.front.URL+"/services/slipway/kernels/api/kernels/x", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "token alice-token")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, _ := io.ReadAll(res.Body); string(body) != `x as "alice": <nil>` {
		t.Errorf("%d %s", res.StatusCode, body)
	}
}

// noOAuth is of a hub that logs nobody in here.
type noOAuth struct{ hubs.OAuth }
