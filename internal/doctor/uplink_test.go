package doctor

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway/internal/config"
	"slipway/internal/errs"
)

func TestReachable(t *testing.T) {
	answer := http.StatusOK
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" {
			w.WriteHeader(answer)
		}
	}))
	defer srv.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	at := func(url, ca string) error { return reachable(t.Context(), config.Uplink{URL: url, CAFile: ca}) }
	if err := at(srv.URL, ca); err != nil {
		t.Error(err)
	}
	if err := at(srv.URL, ""); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "uplink.ca_file") {
		t.Error(err)
	}
	if err := at(strings.Replace(srv.URL, "127.0.0.1", "localhost", 1), ca); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "another name") {
		t.Error(err)
	}
	if err := at("https://127.0.0.1:1", ca); !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), "start the service") {
		t.Error(err)
	}
	answer = http.StatusBadGateway
	if err := at(srv.URL, ca); !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), "502") {
		t.Error(err)
	}
}
