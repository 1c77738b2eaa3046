package htcondor

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"slipway/internal/testenv"
	"slipway/spawner"
	"slipway/spawner/batch"
	"slipway/spawner/htcondor/commands"
	"slipway/spawner/htcondor/condortest"
	"slipway/spawner/spawnertest"
)

// The pool that all tests of this package share.
var shared condortest.Shared

func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }

const aliceUID = 41234

// worlds counts the services of this run, serials the workloads.
var worlds, serials atomic.Int64

// world is an access point's part that one service has to itself.
type world struct {
	pool     *condortest.Pool
	cfg      Config
	agentDir string
	image    string
}

// built returns the stand-in for Slipway's program, which is built once.
var built = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "standin")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "slipway")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", name, "slipway/spawner/batch/testdata/standin")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the stand-in: %w\n%s", err, out)
	}
	return os.ReadFile(name)
})

// newWorld returns a service's part of the pool that all share.
func newWorld(t testing.TB) *world { return worldOf(t, shared.Pool(t)) }

func worldOf(t testing.TB, pool *condortest.Pool) *world {
	t.Helper()
	pool.AddUser(t, "alice", aliceUID)
	pool.AddUser(t, "bob", aliceUID+1)
	program, err := built()
	must(t, err)
	root := pool.TempDir(t)
	w := &world{pool: pool, agentDir: filepath.Join(root, "agent"), image: filepath.Join(root, "image.sif")}
	must(t, os.Mkdir(w.agentDir, 0o755))
	must(t, os.WriteFile(filepath.Join(w.agentDir, "slipway"), program, 0o755))
	must(t, os.WriteFile(w.image, nil, 0o644))
	w.cfg = Config{Disk: 10 << 20, Config: batch.Config{
		Dir: filepath.Join(root, "jobs"), Bin: pool.Bin, Instance: fmt.Sprintf("t%d-%d", os.Getpid(), worlds.Add(1)), MarkKey: []byte(testKey), Grace: time.Second,
		PollEvery: 150 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}}
	return w
}

func (w *world) backend(t testing.TB) *batch.Backend {
	t.Helper()
	b, err := New(w.cfg)
	must(t, err)
	return b
}

// system is HTCondor as the backend sees it.
func (w *world) system() *system {
	cfg := w.cfg.filled()
	return newSystem(cfg, commands.In(cfg.Bin))
}

// launch returns a job of alice's, with all that the Manager would have made for it.
func (w *world) launch(t testing.TB) spawner.Launch {
	t.Helper()
	id := spawner.ID(fmt.Sprintf("j-%016d", serials.Add(1)))
	l := spawner.Launch{
		Workload: spawner.Workload{
			ID: id, Kind: spawner.Job, Owner: "alice@cern.ch", Launch: "l-" + string(id),
			Spec: spawner.Spec{Env: map[string]string{}, Resources: spawner.Resources{CPUs: 1, Memory: 64 << 20}},
		},
		Account: spawner.Account{UID: aliceUID, GID: 100, Login: "alice", HomeDir: "/home/alice", Home: "/home/alice"},
		Dir:     filepath.Join(filepath.Dir(w.cfg.Dir), "work", string(id)), InputDir: filepath.Join(filepath.Dir(w.cfg.Dir), "work", string(id), "inputs"), AgentDir: w.agentDir, SIF: w.image,
		Report: func(string, int) {},
	}
	must(t, os.MkdirAll(l.InputDir, 0o711))
	return l
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// until looks again and again until ok.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	testenv.Until(t, what, testenv.Hang, ok)
}

// await looks until a workload shows one of the given states.
func await(t testing.TB, b *batch.Backend, id spawner.ID, want ...spawner.Existence) spawner.Observation {
	t.Helper()
	var o spawner.Observation
	until(t, fmt.Sprintf("%s is %v", id, want), func() bool {
		var err error
		o, err = b.Observe(t.Context(), id)
		must(t, err)
		return slices.Contains(want, o.Existence)
	})
	return o
}

// contextOfOwn is for what is cleared away after a test, when its own has ended.
func contextOfOwn() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 2*time.Minute)
}

// orders sets what the stand-in does.
func orders(l spawner.Launch, order string) spawner.Launch {
	l.Spec.Env[spawnertest.AgentEnv] = order
	return l
}
