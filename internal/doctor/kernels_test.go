package doctor

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"slipway/internal/config"
)

func TestDoctorAsksForKernels(t *testing.T) {
	gateway := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/kernels/api" {
			_, _ = w.Write([]byte(`{"version": "2.14.0"}`))
			return
		}
		http.NotFound(w, r)
	}
	for name, tt := range map[string]struct {
		serve http.HandlerFunc
		tls   bool
		want  string // in the error; empty: it is good
	}{
		"it answers":     {gateway, false, ""},
		"it answers TLS": {gateway, true, ""},
		"without":        {http.NotFound, false, "has no kernels (status 404)"},
		"a page":         {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }, false, "has no kernels (status 200)"},
		"nobody":         {nil, false, "nothing answers"},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewUnstartedServer(tt.serve)
			cfg := config.Config{Listen: "0.0.0.0" + s.Listener.Addr().String()[strings.LastIndex(s.Listener.Addr().String(), ":"):], Kernels: config.Kernels{Specs: make([]config.KernelSpec, 1)}}
			switch {
			case tt.tls:
				cfg.TLS.Cert = "cert.pem"
				s.StartTLS()
			case tt.serve != nil:
				s.Start()
			default:
				_ = s.Listener.Close()
			}
			defer s.Close()
			err := kernelChecks(cfg)[0].look(t.Context())
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%v", err)
			}
		})
	}
	if len(kernelChecks(config.Config{})) > 0 {
		t.Error("a site without kernels is looked at")
	}
}
