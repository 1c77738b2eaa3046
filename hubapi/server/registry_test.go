package server

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestRegistryIsAskedWithItsWholePath: nothing of the router stands between a client and the registry, whatever the
// path.
func TestRegistryIsAskedWithItsWholePath(t *testing.T) {
	var h *harness
	h = start(t, newFake(), func(c *Config) {
		c.Registry = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, token, _ := r.BasicAuth()
			caller, err := h.Web.Identify(r.Context(), token)
			if err != nil {
				http.Error(w, err.Error(), http.StatusUnauthorized)
				return
			}
			fmt.Fprintf(w, "%s %s as %s of %s", r.Method, r.URL.EscapedPath(), caller.User, caller.Hub)
		})
	})
	for _, tc := range []struct{ method, path, token, want string }{
		{"GET", "/v2/", "alice-token", "GET /v2/ as alice of"},
		{"GET", "/v2", "alice-token", "GET /v2 as alice of"},
		{"POST", "/v2/a/b/blobs/uploads/", "alice-token", "POST /v2/a/b/blobs/uploads/ as alice"},
		{"GET", "/v2/alice%2Fana/../x", "bob-token", "GET /v2/alice%2Fana/../x as bob"},
		{"GET", "/sif/sha256:aa", "bob-token", "GET /sif/sha256:aa as bob"},
		{"GET", "/v2/", "guessed", "unknown token"},
		{"GET", "/v2/", "", "no token"},
		{"GET", "/v2/", "a b-token", "no token"},
		{"GET", "/v2/", "down-token", "the Hub is down"},
	} {
		r, err := http.NewRequest(tc.method, h.front.URL+tc.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.SetBasicAuth("whoever", tc.token)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || !strings.Contains(string(body), tc.want) {
			t.Errorf("%s %s with %q: %d %s", tc.method, tc.path, tc.token, resp.StatusCode, body)
		}
	}
	if logged := h.logged.String(); strings.Contains(logged, "alice-token") || strings.Contains(logged, "guessed") {
		t.Error("a token is in the log")
	}
}
