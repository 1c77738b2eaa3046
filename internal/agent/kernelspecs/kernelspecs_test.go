package kernelspecs

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/testenv"
)

// listing is a service's answer with kernelspecs of these titles by name.
func listing(titles map[string]string) []byte {
	all := map[string]any{}
	for name, title := range titles {
		all[name] = map[string]any{
			"name": name, "spec": map[string]any{"display_name": title, "language": "python", "argv": []string{"evil"}, "metadata": map[string]any{"slipway": 1}},
			"resources": map[string]string{
				"logo-svg": "/x/kernelspecs/" + name + "/logo-svg.svg", "kernel.js": "/x/kernelspecs/" + name + "/kernel.js",
				"logo-64x64": "/x/kernelspecs/" + name + "/../logo-64x64.png",
			},
		}
	}
	b, _ := json.Marshal(map[string]any{"default": "a", "kernelspecs": all})
	return b
}

// menu is a service.
type menu struct {
	answer atomic.Pointer[http.HandlerFunc]
	asked  chan struct{}
}

func (m *menu) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/logo-svg.svg") {
		_, _ = fmt.Fprint(w, "<svg/>")
		return
	}
	if !strings.HasSuffix(r.URL.Path, "/api/kernelspecs") {
		http.NotFound(w, r)
		return
	}
	(*m.answer.Load())(w, r)
	m.asked <- struct{}{}
}

func (m *menu) says(status int, body []byte) {
	f := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write(body)
	})
	m.answer.Store(&f)
}

// settle waits until what was said has surely been written: the look after the next has begun.
func (m *menu) settle(t *testing.T) {
	t.Helper()
	for range 3 {
		testenv.Receive(t, "the service is asked", m.asked)
	}
}

func read(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	paths, err := filepath.Glob(filepath.Join(dir, shown, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name, _ := filepath.Rel(filepath.Join(dir, shown), path)
		var k file
		if filepath.Base(path) == "kernel.json" {
			if err := json.Unmarshal(b, &k); err != nil {
				t.Error(err)
			}
			b = []byte(k.DisplayName + ": " + strings.Join(k.Argv, " ") + " by " + k.InterruptMode)
		}
		found[name] = string(b)
	}
	return found
}

func TestListIsKeptAsTheServiceHasIt(t *testing.T) {
	m := &menu{asked: make(chan struct{})}
	server := httptest.NewServer(m)
	defer server.Close()
	dir := t.TempDir()
	cfg := Config{Dir: dir, Program: "/bin/slipway", Every: time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		Dial: func(ctx context.Context) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", server.Listener.Addr().String())
		}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	m.says(200, listing(map[string]string{"GPU.1": "Python (GPU)", "../evil": "Evil"}))
	go func() { defer close(done); Keep(ctx, cfg) }()
	defer func() {
		cancel()
		for {
			select {
			case <-m.asked:
			case <-done:
				return
			}
		}
	}()
	gpu := map[string]string{
		"slipway-gpu.1/kernel.json":  "Python (GPU), own container: /bin/slipway kernel-bridge --spec GPU.1 --language python -f {connection_file} by message",
		"slipway-gpu.1/logo-svg.svg": "<svg/>",
	}
	m.settle(t)
	if diff := cmp.Diff(gpu, read(t, dir)); diff != "" {
		t.Error(diff)
	}
	for _, no := range []struct {
		status int
		body   string
	}{{500, ""}, {200, "nonsense"}} {
		m.says(no.status, []byte(no.body))
		m.settle(t)
		if diff := cmp.Diff(gpu, read(t, dir)); diff != "" {
			t.Errorf("after %v: %s", no, diff)
		}
	}
	m.says(200, listing(map[string]string{"cpu": "Python"}))
	m.settle(t)
	if got := read(t, dir); len(got) != 2 || !strings.HasPrefix(got["slipway-cpu/kernel.json"], "Python, own container: ") {
		t.Errorf("%v", got)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 2 {
		t.Errorf("lists are left: %v", left)
	}
	m.says(404, nil)
	m.settle(t)
	if got := read(t, dir); len(got) != 0 {
		t.Errorf("a service without kernels: %v", got)
	}
}
