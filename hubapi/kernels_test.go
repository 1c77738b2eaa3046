package hubapi

import (
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
		if err := c.StopKernel(t.Context(), "k/1"); !errs.Is(err, kind) || !strings.Contains(err.Error(), "start another") {
			t.Errorf("%d: %v", status, err)
		}
		s.Close()
	}
}
