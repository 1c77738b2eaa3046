package proxy

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func FuzzHubAPIProxyPath(f *testing.F) {
	api, _ := url.Parse("http://127.0.0.1:8081/hub/api")
	for _, p := range []string{"/hub/api/user", "/hub/api/../x", "/hub/api/%2e%2e/x", "/hub/api/%25252e%25252e/x"} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, path string) {
		u, err := url.ParseRequestURI(path)
		if err != nil {
			return
		}
		if allowed(&http.Request{Method: "GET", URL: u, Header: http.Header{}}, api) != nil {
			return
		}
		if clean := u.JoinPath(); !strings.HasPrefix(clean.Path, "/hub/api/") && clean.Path != "/hub/api" || u.Host != "" {
			t.Fatalf("%q is let through and means %q", path, clean)
		}
	})
}
