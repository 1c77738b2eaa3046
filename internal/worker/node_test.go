package worker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/testenv"
)

const nobody = 65534

func must(t testing.TB, all ...error) {
	t.Helper()
	for _, err := range all {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestMain(m *testing.M) {
	code := m.Run()
	_ = os.RemoveAll(shared())
	os.Exit(code)
}

// shared is the directory of what all tests of this run share.
func shared() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("slipway-worker-%d", os.Getpid()))
}

// parts makes the program and an image, once.
var parts = sync.OnceValue(func() error {
	tree := filepath.Join(shared(), "tree")
	for _, dir := range []string{"bin", "tmp", "var/tmp", "etc", "dev", "proc", "sys", "opt/old"} {
		if err := os.MkdirAll(filepath.Join(tree, dir), 0o755); err != nil {
			return err
		}
	}
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return err
	}
	for _, argv := range [][]string{
		{"cp", busybox, filepath.Join(tree, "bin/busybox")},
		{"sh", "-c", `cd "$1"; for a in sh ls cat id env rm mkdir ln mkfifo dd sleep touch setsid chmod truncate kill grep; do ln -s busybox bin/$a; done
			echo root:x:0:0:root:/root:/bin/sh > etc/passwd; echo root:x:0: > etc/group; echo o > opt/old/file; chmod 755 ..`, "sh", tree},
		{"mksquashfs", tree, filepath.Join(shared(), "image"), "-quiet", "-no-progress", "-noappend"},
		{"env", "CGO_ENABLED=0", "go", "build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(shared(), "slipway"), "./testdata/program"},
	} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w: %s", argv, err, out)
		}
	}
	return nil
})

// node is a host with Apptainer, and on it a sandbox as a batch system makes one.
type node struct {
	t    *testing.T
	box  string
	plan Plan
	app  *control.App // of a job
	link any          // the uplink; nil: none
	env  []string     // of the batch system's
	via  []string     // the program to start the worker with, and its arguments
	uid  uint32

	cmd  *exec.Cmd
	said bytes.Buffer
}

// newNode makes one for a job that is a line of shell.
func newNode(t *testing.T, line string) *node {
	t.Helper()
	testenv.Need(t, testenv.Root, testenv.Apptainer, testenv.Mksquashfs, testenv.Busybox)
	must(t, parts())
	box, err := os.MkdirTemp(shared(), "box")
	must(t, err)
	return &node{
		t: t, box: box, uid: nobody,
		plan: Plan{
			ID: "j-0123456789abcdef", Launch: "l1", Node: Node{Apptainer: testenv.ApptainerPath()}, Login: "alice", Home: "/home/alice",
			Image: Image{Path: filepath.Join(shared(), "image"), Digest: "sha256:" + strings.Repeat("ab", 32)}, Grace: time.Second,
		},
		app: &control.App{Launch: "l1", Argv: []string{"sh", "-c", line}, Grace: time.Second},
	}
}

func (n *node) at(elem ...string) string { return filepath.Join(append([]string{n.box}, elem...)...) }

// send makes the sandbox.
func (n *node) send(inputs ...string) {
	n.t.Helper()
	must(n.t, os.MkdirAll(n.at(LinkDir), 0o755), os.MkdirAll(n.at(Inputs), 0o755))
	n.write(PlanFile, n.plan)
	if n.app != nil {
		n.write("link/app.json", n.app)
	}
	if n.link != nil {
		n.write("link/uplink.json", n.link)
	}
	for _, name := range inputs {
		must(n.t, os.WriteFile(n.at(Inputs, name), []byte("sent "+name), 0o644))
	}
	must(n.t, exec.Command("cp", filepath.Join(shared(), "slipway"), n.at(Program)).Run(),
		exec.Command("chown", "-R", fmt.Sprintf("%d:%d", n.uid, n.uid), n.box).Run())
}

func (n *node) write(name string, v any) {
	n.t.Helper()
	b, err := json.Marshal(v)
	must(n.t, err, os.WriteFile(n.at(name), b, 0o644))
}

// start starts the worker.
func (n *node) start() {
	n.t.Helper()
	argv := append(n.via, n.at(Program), "worker")
	n.cmd = exec.Command(argv[0], argv[1:]...)
	n.cmd.Dir, n.cmd.Env = n.box, append([]string{"PATH=" + os.Getenv("PATH")}, n.env...)
	n.cmd.Stdout, n.cmd.Stderr = &n.said, &n.said
	if len(n.via) == 0 {
		n.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: n.uid, Gid: n.uid}}
	}
	must(n.t, n.cmd.Start())
}

// run sees the worker to its end, and gives its code and its End.
func (n *node) run(inputs ...string) (int, End) {
	n.t.Helper()
	n.send(inputs...)
	n.start()
	return n.wait()
}

func (n *node) wait() (int, End) {
	n.t.Helper()
	_ = n.cmd.Wait()
	n.t.Logf("the worker says: %s", &n.said)
	n.swept()
	var e End
	must(n.t, json.Unmarshal([]byte(n.out(EndFile)), &e))
	return n.cmd.ProcessState.ExitCode(), e
}

// out returns what came back.
func (n *node) out(elem ...string) string {
	n.t.Helper()
	b, err := os.ReadFile(n.at(append([]string{OutDir}, elem...)...))
	must(n.t, err)
	return string(b)
}

func (n *node) status() control.Status {
	n.t.Helper()
	var s control.Status
	must(n.t, json.Unmarshal([]byte(n.out(StatusFile)), &s))
	return s
}

// swept looks that nothing of the run is left.
func (n *node) swept() {
	n.t.Helper()
	until(n.t, "nothing of the run is left", func() bool { return len(n.processes()) == 0 })
}

// processes are those of the run: their environment or their arguments name its sandbox, or they are below one that
// does.
func (n *node) processes() []string {
	var list []string
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		env, _ := os.ReadFile(filepath.Join(dir, "environ"))
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		mounts, _ := os.ReadFile(filepath.Join(dir, "mountinfo"))
		if bytes.Contains(env, []byte(n.box)) || bytes.Contains(line, []byte(n.box)) || bytes.Contains(mounts, []byte(strings.TrimPrefix(n.box, "/tmp")+"/"+runDir+" ")) {
			list = append(list, dir+" "+string(bytes.ReplaceAll(line, []byte{0}, []byte(" "))))
		}
	}
	return list
}

// until asks again and again until ok.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	testenv.Until(t, what, testenv.Hang, ok)
}
