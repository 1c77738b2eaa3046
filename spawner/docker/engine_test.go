package docker

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"slipway/internal/testenv"
	"slipway/spawner/spawnertest"
)

// engine is a Docker Engine of the test's own, which may be killed. Its containerd is a process beside it, as on most
// machines: what runs outlives the engine.
type engine struct {
	t      *testing.T
	dir    string
	socket string
	daemon *testenv.Process
	log    *os.File
}

func newEngine(t *testing.T, flags ...string) *engine {
	t.Helper()
	testenv.Need(t, testenv.Root, testenv.Docker, testenv.Dockerd)
	dir, err := os.MkdirTemp("", "slipway-engine") // short, for the sockets
	if err != nil {
		t.Fatal(err)
	}
	e := &engine{t: t, dir: dir, socket: filepath.Join(dir, "engine.sock")}
	t.Cleanup(e.discard)
	if e.log, err = os.Create(filepath.Join(dir, "log")); err != nil {
		t.Fatal(err)
	}
	containerd := e.process("containerd", "--root", e.path("layers"), "--state", e.path("state"), "--address", e.path("containerd.sock"))
	t.Cleanup(func() { containerd.End(syscall.SIGTERM) })
	containerd.Until("containerd answers", func() bool { _, err := os.Stat(e.path("containerd.sock")); return err == nil })
	t.Cleanup(func() { e.end(syscall.SIGTERM) })
	e.start(flags...)
	return e
}

func (e *engine) path(name string) string { return filepath.Join(e.dir, name) }

func (e *engine) process(program string, args ...string) *testenv.Process {
	e.t.Helper()
	cmd := exec.Command(program, args...)
	// A network of its own: an engine that is told to have no bridge removes the host's docker0, which belongs to
	// another engine.
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	return testenv.Begin(e.t, cmd, e.log)
}

// start starts the engine and waits until it answers.
func (e *engine) start(flags ...string) {
	e.t.Helper()
	e.daemon = e.process("dockerd", append([]string{
		"--containerd", e.path("containerd.sock"), "--containerd-namespace", "slipway-test", "--containerd-plugins-namespace", "slipway-test-plugins",
		"--data-root", e.path("data"), "--exec-root", e.path("exec"), "--pidfile", e.path("pid"), "--host", "unix://" + e.socket,
		"--bridge", "none", "--iptables=false", "--ip-masq=false", "--storage-driver", "overlay2",
	}, flags...)...)
	b := backend(e.t, Config{Host: e.socket, Network: "none"})
	defer b.Close()
	e.daemon.Until("the engine answers", func() bool { return b.Check(e.t.Context()) == nil })
}

// end ends the engine by a signal.
func (e *engine) end(s syscall.Signal) {
	if e.daemon == nil {
		return
	}
	e.daemon.End(s)
	e.daemon = nil
}

// discard removes all that the engine left. A killed one leaves its data directory mounted on itself.
func (e *engine) discard() {
	testenv.ShowLog(e.t, "the engine's log", e.path("log"))
	_ = e.log.Close()
	for syscall.Unmount(e.path("data"), 0) == nil {
		continue
	}
	if err := os.RemoveAll(e.dir); err != nil {
		e.t.Error(err)
	}
}

// world is one on this engine.
func (e *engine) world(cfg Config) world {
	e.t.Helper()
	cfg.Host, cfg.Network = e.socket, "none"
	w := world{image: "slipway-test/tiny:1", agent: e.t.TempDir()}
	w.Backend = w.again(e.t, cfg)
	spawnertest.BuildAgent(e.t, w.agent)
	e.t.Cleanup(func() { w.clear(e.t) })
	return w
}
