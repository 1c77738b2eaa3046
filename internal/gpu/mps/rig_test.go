package mps

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"slipway/internal/testenv"
)

const (
	gpuA        = "GPU-5368a050-64ef-4b0b-8d12-6a53f1f6a1b2"
	gpuB        = "GPU-77e0e8f4-1234-5678-9abc-000000000002"
	enclosedGPU = "GPU-0000e8f4-1234-5678-9abc-000000000003"
	gib         = int64(1) << 30
)

// rig is a host with a fake MPS.
type rig struct {
	t         *testing.T
	dir       string
	cfg       Config
	d         *Daemons
	mu        sync.Mutex
	exclusive map[string]bool
}

func newRig(t *testing.T, m manner) *rig {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "mps") // short: sockets are below it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) }) // the fake daemons end by it
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"nvidia-cuda-mps-control", "nvidia-cuda-mps-server", "enclose", "plain-enclose"} {
		if err := os.Symlink(self, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	r := &rig{t: t, dir: dir, exclusive: map[string]bool{}}
	r.behave(m)
	r.cfg = Config{
		Control: filepath.Join(dir, "nvidia-cuda-mps-control"), Dir: filepath.Join(dir, "mps"), Shm: filepath.Join(dir, "shm"),
		Enclose: []string{filepath.Join(dir, "plain-enclose")}, Deadline: testenv.Hang,
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Exclusive: func(_ context.Context, uuid string, on bool) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.exclusive[uuid] = on
			return nil
		},
	}
	r.restart()
	return r
}

// behave changes how the fake behaves from now on.
func (r *rig) behave(m manner) {
	text, err := json.Marshal(m)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.dir, "manner.tmp"), text, 0o644); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(r.dir, "manner.tmp"), filepath.Join(r.dir, "manner.json")); err != nil {
		r.t.Fatal(err)
	}
}

// restart is the service, ended and started again.
func (r *rig) restart() { r.d = New(r.cfg) }

func (r *rig) pipe(uuid string) string { return filepath.Join(r.cfg.Dir, uuid, "pipe") }

// tell says to the fake daemon of a GPU what has happened on it.
func (r *rig) tell(uuid string, words ...string) string {
	r.t.Helper()
	out, _, err := tell(r.pipe(uuid), words)
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

func (r *rig) share(uuid, holder string, uid, percent int, memory int64) Share {
	r.t.Helper()
	s, err := r.d.Share(r.t.Context(), uuid, holder, uid, percent, memory)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func (r *rig) control(uuid string) int {
	g, err := r.d.at(uuid)
	if err != nil {
		r.t.Fatal(err)
	}
	control, _ := r.d.processes(g)
	return control
}

func (r *rig) condition(uuid string) Condition {
	r.t.Helper()
	s, err := r.d.Health(r.t.Context(), uuid)
	if err != nil {
		r.t.Fatal(err)
	}
	return s.Condition
}

// nothing checks that a GPU is as if MPS had never been.
func (r *rig) nothing(uuid string) {
	r.t.Helper()
	g, _ := r.d.at(uuid)
	control, servers := r.d.processes(g)
	if control != 0 || len(servers) > 0 {
		r.t.Errorf("processes are left: %d %v", control, servers)
	}
	for _, path := range []string{g.pipe(), g.shm, g.record()} {
		if _, err := os.Lstat(path); err == nil {
			r.t.Errorf("%s is left", strings.TrimPrefix(path, r.dir))
		}
	}
	if r.exclusive[uuid] {
		r.t.Error("the GPU is still exclusive")
	}
}

func number(pid int) string { return strconv.Itoa(pid) }
