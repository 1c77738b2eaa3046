package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"

	"slipway/hubapi"
	"slipway/hubapi/server/hubs"
	"slipway/internal/metrics"
	"slipway/internal/secret"
	"slipway/kernels"
	"slipway/spawner"
)

// withAll starts a server that has what stands before its routes.
func withAll(t *testing.T) *harness {
	return startPages(t, newFake(lab("s-alice", "alice", "/base/user/alice/")), func(c *Config) {
		c.SSH, c.Metrics = authority(t, c.Logins), metrics.New(metrics.Config{})
		c.Hubs[0].Outpost = []hubs.Credential{{Username: "main", Password: secret.New(outpostPassword)}}
		c.Kernels = func(find func(*http.Request) (spawner.Caller, error), tell func(context.Context, kernels.Deed)) http.Handler {
			return kernels.New(kernels.Config{Identify: find, Tell: tell, Specs: func(spawner.Caller) []kernels.Spec { return nil }, Logger: quiet()})
		}
	})
}

// exchange sends a request as alice.
func (h *harness) exchange(method, path string) *http.Response {
	r := httptest.NewRequest(method, path, nil)
	r.Header.Set("Authorization", "token alice-token")
	w := httptest.NewRecorder()
	h.Public().ServeHTTP(w, r)
	return w.Result()
}

// TestHeadAndOptions: probes ask by HEAD, and take what answers 404 for dead.
func TestHeadAndOptions(t *testing.T) {
	h := withAll(t)
	for path, allow := range map[string]string{
		// Where nothing can be measured here, it is the same answer all the same.
		"/healthz": "GET, HEAD, OPTIONS", "/readyz": "GET, HEAD, OPTIONS", "/metrics": "GET, HEAD, OPTIONS", "/ping": "GET, HEAD, OPTIONS",
		hubapi.Base + "/me": "GET, HEAD, OPTIONS", hubapi.Base + "/sessions": "DELETE, GET, HEAD, OPTIONS, POST", hubapi.Base + "/sessions/s-alice": "DELETE, GET, HEAD, OPTIONS",
		hubapi.Base + "/ssh": "GET, HEAD, OPTIONS", prefix: "GET, HEAD, OPTIONS", prefix + "ssh": "GET, HEAD, OPTIONS", "/kernels/api": "GET, HEAD, OPTIONS",
		"/kernels/api/kernelspecs": "GET, HEAD, OPTIONS", prefix + "kernels/api": "GET, HEAD, OPTIONS",
	} {
		get, head, options := h.exchange("GET", path), h.exchange("HEAD", path), h.exchange("OPTIONS", path)
		if head.StatusCode != get.StatusCode || get.StatusCode >= 400 && path != "/metrics" || head.Header.Get("Content-Type") != get.Header.Get("Content-Type") {
			t.Errorf("%s: GET %d, HEAD %d", path, get.StatusCode, head.StatusCode)
		}
		if got := options.Header.Get("Allow"); options.StatusCode != http.StatusNoContent || got != allow {
			t.Errorf("OPTIONS %s: %d, Allow: %s", path, options.StatusCode, got)
		}
	}
	if res := h.exchange("OPTIONS", "/kernels/api/kernels"); res.Header.Get("Allow") != "GET, HEAD, OPTIONS, POST" {
		t.Errorf("kernels: %d %v", res.StatusCode, res.Header)
	}
	for _, path := range []string{"/nothing", "/user/nobody/", hubapi.Base + "/nothing", prefix + "nothing"} {
		if head, options := h.exchange("HEAD", path), h.exchange("OPTIONS", path); head.StatusCode < 400 || options.StatusCode < 400 {
			t.Errorf("%s: HEAD %d, OPTIONS %d", path, head.StatusCode, options.StatusCode)
		}
	}
}

// TestHeadTakesNothingAway: what is given once, or lasts, is asked for by GET alone.
func TestHeadTakesNothingAway(t *testing.T) {
	h := withAll(t)
	for _, path := range []string{
		hubapi.Base + "/ssh/logins/x", hubapi.Base + "/sessions/s-alice/events", hubapi.Base + "/sessions/s-alice/log", hubapi.Base + "/sessions/s-alice/wait",
		hubapi.Base + "/scans/x/events", prefix + "oauth_callback", prefix + "sessions/s-alice/events", hubapi.Base + "/environments/x/export",
	} {
		if res := h.exchange("HEAD", path); res.StatusCode != http.StatusMethodNotAllowed || res.Header.Get("Allow") != http.MethodGet {
			t.Errorf("%s: %d", path, res.StatusCode)
		}
	}
}

// TestNosniffEverywhere walks all routes with whatever comes of it: no answer of the service's own is taken for another
// type than it says.
func TestNosniffEverywhere(t *testing.T) {
	h := withAll(t)
	paths := []string{"/", "/nothing", "/user/nobody/", "/user/nobody", "/services/x/y", "/ping", prefix + "x", "/kernels/api/nothing", "/base/user/alice/"}
	walk := func(routes chi.Routes, under string) {
		_ = chi.Walk(routes, func(_, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
			paths = append(paths, under+strings.NewReplacer("{id}", "s-none", "{", "", "}", "", "*", "x").Replace(route))
			return nil
		})
	}
	walk(h.Public().(chi.Routes), "")
	for _, path := range slices.Compact(slices.Sorted(slices.Values(paths))) {
		for _, method := range []string{"GET", "HEAD", "OPTIONS", "POST"} {
			if res := h.exchange(method, path); res.Header.Get("X-Content-Type-Options") != "nosniff" || len(res.Header["X-Content-Type-Options"]) != 1 {
				t.Errorf("%s %s: %d without nosniff: %v", method, path, res.StatusCode, res.Header)
			}
		}
	}
}
