package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"slipway/internal/agent/control"
	"slipway/internal/testenv"
	"slipway/internal/tunnel"
)

const workload = "s-0123456789abcdef"

// TestMain lets this test program play the apps, and the agent as first process of a namespace.
func TestMain(m *testing.M) {
	testenv.EndAtOnce()
	switch os.Getenv("SLIPWAY_TEST_PLAY") {
	case "":
		os.Exit(m.Run())
	case "web":
		playWeb()
	case "code":
		playCode()
	case "agent":
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		_ = Run(ctx, Config{Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	case "burn":
		burn()
	case "first":
		os.Exit(playFirst())
	case "stand-in":
		playStandIn()
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("stubborn")
		select {}
	}
}

// rig is a service with one agent that runs in this process.
type rig struct {
	dir    string
	cfg    Config
	links  *tunnel.Links
	client control.Client
	stop   func() // ends the service
	done   chan error
	cancel func() // what SIGTERM does to the agent
}

func newRig(t *testing.T, change ...func(*Config)) *rig {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "agent")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	r := &rig{dir: dir, done: make(chan error, 1), cfg: configIn(dir)}
	for _, f := range change {
		f(&r.cfg)
	}
	r.serve(t)
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go func() { r.done <- Run(ctx, r.cfg) }()
	t.Cleanup(func() { cancel(); <-r.done })
	r.wait(t)
	return r
}

func configIn(dir string) Config {
	return Config{
		LinkSocket: filepath.Join(dir, "service.sock"), APISocket: filepath.Join(dir, "api.sock"),
		BinDir: filepath.Join(dir, "bin"), WorkDir: filepath.Join(dir, "work"), LogFile: filepath.Join(dir, "app.log"),
		Progress:  filepath.Join(dir, "progress.json"),
		KernelDir: filepath.Join(dir, "kernel"),
		TokensDir: filepath.Join(dir, "credentials"), UsualProxy: filepath.Join(dir, "x509up"),
		Env:    []string{"PATH=/usr/bin:/bin", control.IDEnv + "=" + workload},
		Logger: slog.New(slog.DiscardHandler),
	}
}

// serve starts a service; after stop it is the next one.
func (r *rig) serve(t *testing.T) {
	t.Helper()
	r.links = tunnel.New(tunnel.Config{Logger: r.cfg.Logger})
	if err := r.links.Open(workload, r.cfg.LinkSocket, os.Getuid()); err != nil {
		t.Fatal(err)
	}
	links := r.links
	r.client = control.Client{Dial: func(ctx context.Context) (net.Conn, error) { return links.Dial(ctx, workload, tunnel.DoorControl) }}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { _ = links.Run(ctx) })
	r.stop = func() { cancel(); done.Wait() }
	t.Cleanup(r.stop)
}

func (r *rig) wait(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Hang)
	defer cancel()
	if err := r.links.Wait(ctx, workload); err != nil {
		t.Fatal(err)
	}
}

// launch starts an app and waits until it is in state s.
func (r *rig) launch(t *testing.T, app control.App, s control.State) control.Status {
	t.Helper()
	if app.Launch == "" {
		app.Launch = "l1"
	}
	if err := r.client.Launch(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	return r.until(t, s)
}

var errEnough = errors.New("enough")

func (r *rig) until(t *testing.T, s control.State) control.Status {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Hang)
	defer cancel()
	var last control.Status
	err := r.client.Watch(ctx, func(st control.Status) error {
		last = st
		if st.State == s {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		t.Fatalf("the app is %+v and does not become %s: %v", last, s, err)
	}
	return last
}

func (r *rig) log(t *testing.T, from int64, follow bool) string {
	t.Helper()
	body, err := r.client.Log(t.Context(), from, follow)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	b, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// shell is an app of one line.
func shell(line string) control.App { return control.App{Argv: []string{"sh", "-c", line}} }

// play is an app that this test program plays.
func play(role string, env control.Env) control.App {
	if env == nil {
		env = control.Env{}
	}
	env["SLIPWAY_TEST_PLAY"] = role
	return control.App{Argv: []string{"/proc/self/exe"}, Env: env}
}

// playWeb is a small server where JupyterHub's variables say it is to be. It shows its environment.
func playWeb() {
	address := strings.TrimPrefix(os.Getenv("JUPYTERHUB_SERVICE_URL"), "http://")
	address, _, _ = strings.Cut(address, "/")
	mux := http.NewServeMux()
	mux.HandleFunc("/user/alice/env/{name}", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, os.Getenv(r.PathValue("name")))
	})
	mux.HandleFunc("/user/alice/upgrade", upgrade)
	for _, list := range []string{"kernels", "terminals"} {
		mux.HandleFunc("/user/alice/api/"+list, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "token "+os.Getenv("JUPYTERHUB_API_TOKEN") || r.FormValue("no_track_activity") == "" {
				w.WriteHeader(http.StatusForbidden)
			}
			_, _ = io.WriteString(w, os.Getenv(list))
		})
	}
	if err := http.ListenAndServe(address, mux); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// burnt is the CPU time that burn uses, in seconds.
const burnt = 0.3

func burn() {
	for {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil || seconds(u.Utime)+seconds(u.Stime) >= burnt {
			return
		}
	}
}

// upgrade leaves HTTP as a websocket does, and then answers each byte until the other side has ended.
func upgrade(w http.ResponseWriter, _ *http.Request) {
	c, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	_ = rw.Flush()
	_, _ = io.Copy(c, rw)
	_, _ = io.WriteString(c, "bye")
}

// eventually asks again and again until ok.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	testenv.Until(t, what, testenv.Hang, ok)
}
