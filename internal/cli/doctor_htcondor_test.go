package cli

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

func TestJudgeSlots(t *testing.T) {
	const good, bare, fixed = `{"HasSingularity": true, "HasUserNamespaces": true}`, `{"Machine": "wn1"}`, `{"HasSingularity": true, "SingularityUserNamespaces": false}`
	for name, tc := range map[string]struct{ ads, want string }{
		"all fit":       {"[" + good + "," + `{"HasSingularity": true}` + "]", ""},
		"no slots":      {"", "the pool has no slots"},
		"none of it":    {"[]", "the pool has no slots"},
		"no Apptainer":  {"[" + good + "," + bare + "," + bare + "]", "2 of 3 slots have no Apptainer"},
		"no namespaces": {"[" + good + "," + fixed + "]", "on 1 of 2 slots users may make no user namespaces"},
		"no answer":     {"oops", "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			err := judgeSlots([]byte(tc.ads))
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}

func TestHasCondor(t *testing.T) {
	bin := t.TempDir()
	for _, name := range condorCommands()[1:] {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\necho '[]'\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := hasCondor(bin); !errs.Is(err, errs.Missing) || !strings.Contains(err.Error(), "not there: condor_submit:") {
		t.Error(err)
	}
	if err := workersFit(t.Context(), bin); err == nil || !strings.Contains(err.Error(), "no slots") {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "condor_status"), []byte("#!/bin/sh\necho no collector >&2\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := workersFit(t.Context(), bin); !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), "no collector") {
		t.Error(err)
	}
}

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
