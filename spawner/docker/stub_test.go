package docker

import (
	stdcmp "cmp"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/api/types/system"

	"slipway/internal/errs"
	"slipway/internal/testenv"
	"slipway/spawner"
)

// stub returns a backend whose engine is the handler; paths come without the API's version.
func stub(t *testing.T, cfg Config, routes map[string]http.HandlerFunc) *Backend {
	t.Helper()
	cfg.Host, cfg.Network = filepath.Join(t.TempDir(), "engine.sock"), stdcmp.Or(cfg.Network, "bridge")
	l, err := net.Listen("unix", cfg.Host)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.41")
		path := strings.TrimPrefix(r.URL.Path, "/v1.41")
		if h := routes[path]; h != nil {
			h(w, r)
			return
		}
		if path == "/info" {
			answer(w, http.StatusOK, struct{}{})
			return
		}
		if path != "/_ping" {
			answer(w, http.StatusNotFound, map[string]string{"message": "no such thing: " + path})
		}
	})}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close(); <-done })
	return backend(t, cfg)
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func TestOutlivesRestart(t *testing.T) {
	info := func(on bool) map[string]http.HandlerFunc {
		return map[string]http.HandlerFunc{"/info": func(w http.ResponseWriter, _ *http.Request) {
			answer(w, http.StatusOK, system.Info{LiveRestoreEnabled: on})
		}}
	}
	for _, on := range []bool{true, false} {
		if got, err := stub(t, Config{}, info(on)).OutlivesRestart(t.Context()); err != nil || got != on {
			t.Errorf("with live-restore %v: %v, %v", on, got, err)
		}
	}
}

// TestWatchComesBack: the events that were missed while the engine was away are made up for by waking all.
func TestWatchComesBack(t *testing.T) {
	var streams atomic.Int32
	b := stub(t, Config{}, map[string]http.HandlerFunc{
		"/events": func(w http.ResponseWriter, r *http.Request) {
			if streams.Add(1) > 1 {
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			}
		},
		"/containers/json": func(w http.ResponseWriter, r *http.Request) {
			answer(w, http.StatusOK, []map[string]any{{"Id": "x", "Labels": map[string]string{labelID: "s-missed"}}, {"Id": "y"}})
		},
	})
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Hang)
	defer cancel()
	var told []spawner.ID
	err := b.Watch(ctx, func(id spawner.ID) { told = append(told, id); cancel() })
	if diff := cmp.Diff([]spawner.ID{"s-missed"}, told); err != nil || diff != "" {
		t.Errorf("Watch = %v, told %s", err, diff)
	}
}

func TestPull(t *testing.T) {
	const (
		ref  = "registry.example/a/b:1"
		good = `{"id":"a","status":"Downloading","progressDetail":{"current":1048576,"total":2097152}}` + "\n"
	)
	for name, test := range map[string]struct {
		reply string
		pull  bool
		arch  string
		want  errs.Kind
	}{
		"refused":   {"", false, "", errs.Missing},
		"good":      {good, true, runtime.GOARCH, -1},
		"foreign":   {good, true, "pdp11", errs.Missing},
		"broken":    {`{"errorDetail":{"message":"write: no space left on device"}}` + "\n", true, "", errs.NoSpace},
		"not there": {"", true, "", errs.Missing},
	} {
		t.Run(name, func(t *testing.T) {
			pulled := false
			b := stub(t, Config{Pull: test.pull}, map[string]http.HandlerFunc{
				"/images/" + ref + "/json": func(w http.ResponseWriter, _ *http.Request) {
					if !pulled {
						answer(w, http.StatusNotFound, map[string]string{"message": "no such image"})
						return
					}
					answer(w, http.StatusOK, map[string]string{"Id": "sha256:x", "Architecture": test.arch})
				},
				"/images/create": func(w http.ResponseWriter, _ *http.Request) {
					if test.reply == "" {
						answer(w, http.StatusNotFound, map[string]string{"message": "manifest unknown"})
						return
					}
					pulled = true
					_, _ = w.Write([]byte(test.reply))
				},
			})
			l := sample()
			l.Spec.Image = ref
			var told []int
			l.Report = func(_ string, percent int) { told = append(told, percent) }
			id, err := b.image(t.Context(), l)
			if test.want >= 0 {
				if !errs.Is(err, test.want) || !strings.Contains(err.Error(), ref) {
					t.Errorf("image = %v, want kind %d that names the image", err, test.want)
				}
				return
			}
			if diff := cmp.Diff([]int{-1, 33}, told); err != nil || id != "sha256:x" || diff != "" {
				t.Errorf("image = %q, %v, told %s", id, err, diff)
			}
		})
	}
}

// TestOldAndBrokenEngines: what the engine answers is judged, not trusted.
func TestOldAndBrokenEngines(t *testing.T) {
	old := stub(t, Config{}, map[string]http.HandlerFunc{
		"/_ping": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Api-Version", "1.30") },
	})
	if err := old.Check(t.Context()); !errs.Is(err, errs.Missing) || !strings.Contains(err.Error(), "1.30") {
		t.Errorf("Check of an old engine = %v, want missing and its version", err)
	}
	broken := stub(t, Config{}, map[string]http.HandlerFunc{
		"/containers/slipway-s-x/json": func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, struct{}{}) },
		"/containers/slipway-s-y/json": func(w http.ResponseWriter, _ *http.Request) {
			answer(w, http.StatusInternalServerError, map[string]string{"message": "boom"})
		},
	})
	for _, id := range []spawner.ID{"s-x", "s-y"} {
		if o, err := broken.Observe(t.Context(), id); err == nil || o.Existence != spawner.Unknown {
			t.Errorf("Observe(%s) = %+v, %v, want unknown and an error", id, o, err)
		}
	}
	if o, err := broken.Observe(t.Context(), "s-none"); err != nil || o.Existence != spawner.Absent {
		t.Errorf("Observe of nothing = %+v, %v, want absent", o, err)
	}
}

// TestContextEndsDuringStart: the engine has started it, the caller has given up: it must not go on running.
func TestContextEndsDuringStart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	running, stopped := false, false
	const at = "/containers/slipway-s-abcdefgh12345678/json"
	b := stub(t, Config{}, map[string]http.HandlerFunc{
		at: func(w http.ResponseWriter, _ *http.Request) {
			answer(w, http.StatusOK, map[string]any{
				"Id": "c", "Image": "sha256:x", "State": map[string]any{"Running": running, "Status": "exited"}, "HostConfig": map[string]any{},
				"Config": map[string]any{"Image": "slipway/notebook:1", "Labels": map[string]string{labelInstance: "slipway", labelID: "s-abcdefgh12345678", labelGPU: noGPU}},
			})
		},
		"/containers/c/update": func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, struct{}{}) },
		"/containers/c/start": func(w http.ResponseWriter, _ *http.Request) {
			cancel()
			running = true
			w.WriteHeader(http.StatusNoContent)
		},
		"/containers/c/stop": func(w http.ResponseWriter, _ *http.Request) { stopped = true; w.WriteHeader(http.StatusNoContent) },
	})
	b.accounts["sha256:x"] = imageAccounts{shell: "/bin/sh"}
	l := sample()
	l.Dir = t.TempDir()
	if err := b.Start(ctx, l); !errors.Is(err, context.Canceled) || !running || !stopped {
		t.Errorf("Start = %v, started %v, stopped %v, want canceled, and both", err, running, stopped)
	}
}
