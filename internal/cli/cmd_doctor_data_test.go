//go:build linux

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"slipway/hubapi"
)

// TestDataDoctorInterrupted: a look that was interrupted, or whose terminal was closed, says so, and nothing of what it
// did not come to.
func TestDataDoctorInterrupted(t *testing.T) {
	for name, args := range map[string][]string{"interrupt": nil, "interrupt, JSON": {"--json"}, "hangup": nil} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			end := cancel
			if name == "hangup" {
				if signal.Ignored(syscall.SIGHUP) {
					t.Skip("hangups are ignored here")
				}
				end = func() { _ = syscall.Kill(os.Getpid(), syscall.SIGHUP) }
			}
			url := planOf(t, silentStorage(t, end))
			env, out, said := map[string]string{"SLIPWAY_URL": url, "SLIPWAY_TOKEN": "token"}, &bytes.Buffer{}, &bytes.Buffer{}
			code := Run(ctx, append([]string{"doctor", "data"}, args...), Env{Getenv: func(name string) string { return env[name] }, Stdout: out, Stderr: said})
			if code != 130 || out.Len() > 0 || !strings.Contains(said.String(), "interrupted") {
				t.Errorf("exit code %d, %q, %q", code, out, said)
			}
		})
	}
}

// silentStorage takes one connection, says so, and never answers.
func silentStorage(t *testing.T, taken func()) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		if c, err := l.Accept(); err == nil {
			t.Cleanup(func() { _ = c.Close() })
			taken()
		}
	}()
	return "root://" + l.Addr().String()
}

// planOf is a service whose user has a storage element.
func planOf(t *testing.T, origin string) string {
	plan := hubapi.DataPlan{User: "alice", Storage: []hubapi.DataElement{{Storage: hubapi.Storage{Name: "eos", Origin: origin, Path: "/data"}}}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			t.Error("the service is told")
		}
		_ = json.NewEncoder(w).Encode(plan)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestXrdfsIsBounded: of what the image's xrdfs prints, however long, a few words of its errors are kept.
func TestXrdfsIsBounded(t *testing.T) {
	dir := t.TempDir()
	script := "#!/bin/sh\nhead -c 1000000 /dev/zero\nhead -c 1000000 /dev/zero | tr '\\0' x >&2\nexit 54\n"
	if err := os.WriteFile(filepath.Join(dir, "xrdfs"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	if err := listByXrdfs()(t.Context(), "root://eos.test", "/eos"); err == nil || len(err.Error()) != 4<<10 {
		t.Errorf("%.100v", err)
	}
}
