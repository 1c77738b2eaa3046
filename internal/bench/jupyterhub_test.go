package bench

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"slipway/internal/errs"
	"slipway/internal/secret"
)

// jupyterHub serves answers as a Hub gives them, by method and path.
func jupyterHub(t *testing.T, answers map[string]http.HandlerFunc) *JupyterHub {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := answers[r.Method+" "+strings.TrimPrefix(r.URL.Path, "/base")]
		if answer == nil {
			t.Errorf("asked for %s %s", r.Method, r.URL.Path)
			http.NotFound(w, r)
			return
		}
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	h, err := NewJupyterHub(s.URL+"/base/", secret.New("the-token"))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func says(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

// inTurn returns one answer after the other, and the last for ever.
func inTurn(all ...http.HandlerFunc) http.HandlerFunc {
	var n atomic.Int64
	return func(w http.ResponseWriter, r *http.Request) { all[min(int(n.Add(1)), len(all))-1](w, r) }
}

const progressPath = "GET /hub/api/users/bench-a/server/progress"

func TestAwaitFollowsTheStart(t *testing.T) {
	ready := says(200, "data: {\"progress\": 10, \"message\": \"on its way\"}\n\ndata: {\"progress\": 100, \"ready\": true}\n\n")
	for name, c := range map[string]struct {
		progress, user http.HandlerFunc
		want           string
	}{
		"ready":                {progress: ready},
		"failed":               {progress: says(200, "data: {\"progress\": 100, \"failed\": true, \"message\": \"no image\"}\n\n"), want: "the start failed: no image"},
		"a broken stream":      {progress: inTurn(says(200, "data: {\"progress\": 10}\n\n"), ready)},
		"ready before we ask":  {progress: says(400, "{}"), user: says(200, `{"name": "bench-a", "servers": {"": {"ready": true}}}`)},
		"failed before we ask": {progress: says(400, "{}"), user: says(200, `{"name": "bench-a", "servers": {"": {"ready": false}}}`), want: "neither starting nor ready"},
	} {
		t.Run(name, func(t *testing.T) {
			h := jupyterHub(t, map[string]http.HandlerFunc{progressPath: c.progress, "GET /hub/api/users/bench-a": c.user})
			err := h.Await(t.Context(), "bench-a")
			if (c.want == "") != (err == nil) || (err != nil && !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestStopWaitsUntilTheServerIsGone(t *testing.T) {
	h := jupyterHub(t, map[string]http.HandlerFunc{
		"DELETE /hub/api/users/bench-a/server": says(202, ""),
		"GET /hub/api/users/bench-a": inTurn(
			says(200, `{"name": "bench-a", "servers": {"": {"pending": "stop"}}}`), says(200, `{"name": "bench-a", "servers": {"": {"stopped": true}}}`),
		),
	})
	if err := h.Stop(t.Context(), "bench-a"); err != nil {
		t.Error(err)
	}
}

func TestVisitShowsTheUsersToken(t *testing.T) {
	h := jupyterHub(t, map[string]http.HandlerFunc{"GET /user/bench-a/api": func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "token hers" {
			w.WriteHeader(http.StatusForbidden)
		}
	}})
	if err := h.Visit(t.Context(), "bench-a", secret.New("hers")); err != nil {
		t.Error(err)
	}
	if err := h.Visit(t.Context(), "bench-a", secret.New("another")); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("another token: %v", err)
	}
}

func TestWrongHubsAreRefused(t *testing.T) {
	for _, address := range []string{"", "hub.example.org", "ftp://hub.example.org"} {
		if _, err := NewJupyterHub(address, secret.New("t")); !errs.Is(err, errs.Invalid) {
			t.Errorf("%q: %v", address, err)
		}
	}
	if _, err := NewJupyterHub("http://hub.example.org", secret.Text{}); !errs.Is(err, errs.Invalid) {
		t.Errorf("no token: %v", err)
	}
}
