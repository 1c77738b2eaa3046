package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

func TestAnAppAnswersAsAHubExpects(t *testing.T) {
	dialled := 0
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		dialled++
		return apps{"6.1.1"}.dial(ctx, "s-1")
	}}}
	for _, c := range []struct{ method, path, want string }{
		{"GET", "/user/alice/api", `{"version": "simulated"}`},
		{"GET", "/user/alice/api?now=1", `{"version": "simulated"}`},
		{"GET", "/user/alice/lab", "nothing runs in it"},
		{"POST", "/user/alice/api/kernels", "nothing runs in it"},
		{"GET", "/user/alice/api", `{"version": "simulated"}`},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, "http://app"+c.path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatalf("%s %s: %v", c.method, c.path, err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != 200 || !strings.Contains(string(body), c.want) || resp.Header.Get("X-JupyterHub-Version") != "6.1.1" {
			t.Errorf("%s %s: %d %q, %v", c.method, c.path, resp.StatusCode, body, err)
		}
	}
	if dialled != 2 { // the POST ends its connection
		t.Errorf("%d connections", dialled)
	}
}

func TestRequestsAreSorted(t *testing.T) {
	for request, want := range map[string]string{
		"POST /api/v1/sessions": "start", "GET /api/v1/sessions": "poll", "GET /api/v1/sessions/s-1": "poll",
		"GET /api/v1/sessions/s-1/wait": "held", "GET /api/v1/sessions/s-1/events": "held", "POST /api/v1/sessions/s-1/stop": "stop",
		"DELETE /api/v1/sessions/s-1": "other", "GET /api/v1/sessions/s-1/log": "other", "GET /api/v1/profiles": "other",
		"GET /user/alice/api": "visit", "GET /user/alice/api/v1/sessions": "visit",
	} {
		method, path, _ := strings.Cut(request, " ")
		if got := sortOf(method, path); got != want {
			t.Errorf("%s: %s, want %s", request, got, want)
		}
	}
}
