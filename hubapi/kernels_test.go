package hubapi

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"slipway/internal/errs"
)

// The gateway refuses as Jupyter does, and its refusals are of the kinds of all others.
func TestGatewayRefuses(t *testing.T) {
	for status, kind := range map[int]errs.Kind{400: errs.Invalid, 401: errs.Unauthorized, 404: errs.NotFound, 409: errs.Conflict, 429: errs.OverQuota, 503: errs.Unavailable} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/kernels/api/kernels/k%2F1" && r.URL.EscapedPath() != "/kernels/api/kernels/k%2F1" {
				t.Errorf("asked for %s", r.URL)
			}
			w.WriteHeader(status)
			_, _ = w.Write([]byte(`{"reason": "No", "message": "there is none: start another"}`))
		}))
		c, err := NewClient(ClientConfig{URL: s.URL, Token: "t"})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.StopKernel(t.Context(), "k/1"); !errs.Is(err, kind) || !strings.Contains(err.Error(), "start another") || NotReached(err) {
			t.Errorf("%d: %v", status, err)
		}
		s.Close()
	}
}

// What is no answer of the gateway's is told apart from what it refuses: who must have a kernel asks again.
func TestGatewayThatIsNotReached(t *testing.T) {
	for what, h := range map[string]http.HandlerFunc{
		"a proxy's page": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", http.StatusBadGateway) },
		"cut off":        func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"id": "`)) },
		"hung up":        func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		s := httptest.NewServer(h)
		c, err := NewClient(ClientConfig{URL: s.URL, Token: "t"})
		if err != nil {
			t.Fatal(err)
		}
		if k, err := c.Kernel(t.Context(), "k"); !NotReached(err) {
			t.Errorf("%s: %+v, %v", what, k, err)
		}
		s.Close()
	}
}

// A caller that is known by its connection brings its own, and gets the kernelspecs as launchers show them.
func TestLauncherSpecs(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/kernels/kernelspecs/b/logo-svg.svg" {
			_, _ = w.Write([]byte("<svg/>"))
			return
		}
		_, _ = w.Write([]byte(`{"default": "b", "kernelspecs": {"b": {"spec": {"display_name": "B", "language": "python", "metadata": {"x": 1}},
			"resources": {"logo-svg": "/any/kernelspecs/b/logo-svg.svg"}}, "a": {"spec": {"display_name": "A"}}}}`))
	}))
	defer s.Close()
	c, err := NewClient(ClientConfig{Dial: func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", s.Listener.Addr().String())
	}})
	if err != nil {
		t.Fatal(err)
	}
	list, err := c.LauncherSpecs(t.Context())
	if err != nil || len(list) != 2 || list[0].Name != "a" || list[1].DisplayName != "B" || string(list[1].Metadata) != `{"x": 1}` || len(list[1].Logos) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	if logo, err := c.LauncherLogo(t.Context(), list[1].Logos[0]); err != nil || string(logo) != "<svg/>" {
		t.Errorf("%s, %v", logo, err)
	}
}
