package local_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"slipway/internal/errs"
	"slipway/internal/mounts"
	"slipway/internal/testenv"
	"slipway/spawner"
	"slipway/spawner/local"
	"slipway/spawner/spawnertest"
)

// TestMain makes the test's program the two small programs too, which the backend runs as `slipway local-shim` and so
// on.
func TestMain(m *testing.M) {
	testenv.EndAtOnce()
	if len(os.Args) == 3 {
		switch os.Args[1] {
		case "local-shim":
			end(local.Shim(context.Background(), os.Args[2]))
		case "local-enter":
			end(local.Enter(os.Args[2]))
		case "local-network":
			end(local.Connect(os.Args[2]))
		case "local-image":
			end(local.Image(os.Args[2]))
		case "test-service":
			end(service(os.Args[2]))
		}
	}
	if len(os.Args) == 6 && os.Args[1] == "renew-mount" {
		end(mounts.RenewMount(os.Stdout, os.Args[2], os.Args[3], os.Args[4], os.Args[5]))
	}
	code := m.Run()
	_ = os.RemoveAll(shared())
	os.Exit(code)
}

func end(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// worlds counts the services of this run, serials the jobs.
var worlds, serials atomic.Int64

// world is a host's part that one service has to itself.
type world struct {
	cfg                   local.Config
	root, agentDir, image string
}

func newWorld(t testing.TB) *world {
	t.Helper()
	testenv.Need(t, testenv.Root, testenv.Apptainer, testenv.Mksquashfs, testenv.Pasta)
	self, err := os.Executable()
	must(t, err)
	root := t.TempDir()
	w := &world{root: root, agentDir: filepath.Join(root, "agent"), image: filepath.Join(root, "a strange, name:ro", "image.sif")}
	must(t, os.MkdirAll(w.agentDir, 0o755))
	must(t, os.MkdirAll(filepath.Dir(w.image), 0o755))
	must(t, os.Link(built(t, "slipway"), filepath.Join(w.agentDir, "slipway")))
	must(t, os.Link(built(t, "image.sqfs"), w.image))
	w.cfg = local.Config{
		Dir: filepath.Join(root, "jobs"), Apptainer: testenv.ApptainerPath(), CgroupParent: "slipway-test", Self: self,
		Instance: fmt.Sprintf("%d-%d", os.Getpid(), worlds.Add(1)), Grace: 300 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	t.Cleanup(func() { w.swept(t) })
	return w
}

// shared is the directory of what all tests of this run share.
func shared() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("slipway-local-test-%d", os.Getpid()))
}

// built returns one of the files that all tests share: the agent and an image.
func built(t testing.TB, name string) string {
	t.Helper()
	dir := shared()
	file := filepath.Join(dir, name)
	if _, err := os.Stat(file); err == nil {
		return file
	}
	must(t, os.MkdirAll(dir, 0o755))
	spawnertest.BuildAgent(t, dir)
	tree := filepath.Join(dir, "tree")
	for _, d := range []string{"bin", "tmp", "var/tmp", "etc", "dev", "proc", "sys"} {
		must(t, os.MkdirAll(filepath.Join(tree, d), 0o755))
	}
	busybox, err := os.ReadFile("/bin/busybox")
	must(t, err)
	must(t, os.WriteFile(filepath.Join(tree, "bin/busybox"), busybox, 0o755))
	for _, applet := range []string{"sh", "whoami", "ls", "cat", "id", "env", "df"} {
		must(t, os.Symlink("busybox", filepath.Join(tree, "bin", applet)))
	}
	must(t, os.WriteFile(filepath.Join(tree, "etc/passwd"), []byte("root:x:0:0:root:/root:/bin/sh\n"), 0o644))
	must(t, os.WriteFile(filepath.Join(tree, "etc/group"), []byte("root:x:0:\n"), 0o644))
	out, err := exec.Command("mksquashfs", tree, filepath.Join(dir, "image.sqfs"), "-quiet", "-no-progress", "-noappend").CombinedOutput()
	if err != nil {
		t.Fatalf("mksquashfs: %v\n%s", err, out)
	}
	return file
}

func (w *world) backend(t testing.TB) *local.Backend {
	t.Helper()
	b, err := local.New(w.cfg)
	must(t, err)
	return b
}

// launch returns a job of a user that the host does not know, with all that the Manager would have made for it.
func (w *world) launch(t testing.TB) spawner.Launch {
	t.Helper()
	id := spawner.ID(fmt.Sprintf("j-%016d", serials.Add(1)))
	l := spawner.Launch{
		Workload: spawner.Workload{
			ID: id, Kind: spawner.Job, Owner: "wanda", Launch: "l-" + string(id),
			Spec: spawner.Spec{Env: map[string]string{}, Resources: spawner.Resources{CPUs: 1, Memory: 256 << 20, Pids: 100}},
		},
		Account: spawner.Account{
			UID: 54321, GID: 54322, Login: "wanda", HomeDir: filepath.Join(w.root, "homes", "wanda"), Home: "/home/wanda",
		},
		Dir: filepath.Join(w.root, "work", string(id)), AgentDir: w.agentDir, SIF: w.image,
		Report: func(string, int) {},
	}
	for _, dir := range []string{filepath.Join(l.Dir, "link"), filepath.Join(l.Dir, "run"), l.Account.HomeDir} {
		must(t, os.MkdirAll(dir, 0o711))
	}
	must(t, os.Chown(filepath.Join(l.Dir, "run"), l.Account.UID, l.Account.GID))
	must(t, os.Chown(l.Account.HomeDir, l.Account.UID, l.Account.GID))
	return l
}

// swept checks that the host shows no trace of this world's jobs, and takes the groups away.
func (w *world) swept(t testing.TB) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	must(t, err)
	if n := len(grep(string(mounts), w.root)); n > 0 {
		t.Errorf("%d mounts of jobs are left on the host", n)
	}
	for _, at := range []string{"", "*/"} {
		names, err := filepath.Glob("/sys/fs/cgroup/" + at + "slipway-test/" + w.cfg.Instance)
		must(t, err)
		for _, name := range names {
			jobs, err := filepath.Glob(name + "/j-*")
			must(t, err)
			if len(jobs) > 0 {
				t.Errorf("control groups are left: %q", jobs)
			}
			for _, dir := range []string{name + "/shims", name, filepath.Dir(name)} {
				_ = os.Remove(dir)
			}
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestConformance(t *testing.T) {
	spawnertest.Run(t, func(t *testing.T) spawnertest.Subject {
		w := newWorld(t)
		return spawnertest.Subject{
			Backend: w.backend(t),
			Launch:  func(t *testing.T) spawner.Launch { return w.launch(t) },
			Again:   func(t *testing.T) spawner.Backend { return w.backend(t) },
		}
	})
}

func TestWhatIsMissingIsSaid(t *testing.T) {
	w := newWorld(t)
	b := w.backend(t)
	none := w.cfg
	none.Apptainer = "apptainer-that-is-not-there"
	without, err := local.New(none)
	must(t, err)
	if err := without.Check(t.Context()); !errs.Is(err, errs.Missing) {
		t.Errorf("Check without Apptainer = %v, want missing", err)
	}
	bare := w.cfg
	bare.Apptainer = filepath.Join(t.TempDir(), "apptainer")
	must(t, os.WriteFile(bare.Apptainer, []byte("#!/bin/sh\necho /etc/not-there.conf\n"), 0o700))
	unconfigured, err := local.New(bare)
	must(t, err)
	err = unconfigured.Check(t.Context())
	if !errs.Is(err, errs.Missing) || !strings.Contains(err.Error(), "/etc/not-there.conf") {
		t.Errorf("Check without Apptainer's configuration = %v", err)
	}
	for name, tc := range map[string]struct {
		backend *local.Backend
		change  func(*spawner.Launch)
		kind    errs.Kind
	}{
		"apptainer": {without, func(*spawner.Launch) {}, errs.Missing},
		"image":     {b, func(l *spawner.Launch) { l.SIF += ".gone" }, errs.NotFound},
		"root":      {b, func(l *spawner.Launch) { l.Account.UID = 0 }, errs.Forbidden},
		"env":       {b, func(l *spawner.Launch) { l.Spec.Env["a-b"] = "" }, errs.Invalid},
		"id":        {b, func(l *spawner.Launch) { l.ID = "../x" }, errs.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			l := w.launch(t)
			tc.change(&l)
			if err := tc.backend.Start(t.Context(), l); !errs.Is(err, tc.kind) {
				t.Errorf("Start = %v, want kind %v", err, tc.kind)
			}
			if ids, err := b.List(t.Context()); err != nil || len(ids) > 0 {
				t.Errorf("List = %q, %v after a refused start", ids, err)
			}
		})
	}
}

// BenchmarkStart compares a job that does nothing with plain Apptainer: the difference is what limits, namespaces and
// the account of the end cost.
func BenchmarkStart(b *testing.B) {
	w := newWorld(b)
	b.Run("apptainer", func(b *testing.B) {
		for b.Loop() {
			cmd := exec.Command(w.cfg.Apptainer, "--quiet", "exec", "--userns", "--contain", "--pid", "--ipc", "--no-home", built(b, "image.sqfs"), "/bin/sh", "-c", "exit 0")
			cmd.Dir = "/"
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			if out, err := cmd.CombinedOutput(); err != nil {
				b.Fatalf("%v\n%s", err, out)
			}
		}
	})
	for _, network := range []local.Network{local.OfHost, local.Isolated, local.Outward} {
		w.cfg.Network = network
		b.Run("local, network "+string(network), func(b *testing.B) { benchmarkStart(b, w) })
	}
}

func benchmarkStart(b *testing.B, w *world) {
	w.script(b, "exit 0")
	backend := w.backend(b)
	var called time.Duration
	for b.Loop() {
		l := w.launch(b)
		begun := time.Now()
		must(b, backend.Start(b.Context(), l))
		called += time.Since(begun)
		j := job{backend, l, w}
		j.exited(b)
		must(b, backend.Remove(b.Context(), l.ID))
	}
	b.ReportMetric(float64(called.Milliseconds())/float64(b.N), "ms-in-Start/op")
}
