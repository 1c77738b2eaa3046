// Package slurmtest runs a real Slurm cluster for tests: Slurm 24.11 with Apptainer, without accounting, in one container
// of the image that deploy/images/slurm makes, which is controller and node.
//
// A package has one cluster for all its tests:
//
//	var shared slurmtest.Shared
//
//	func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }
//
//	func TestReal(t *testing.T) {
//		cluster := shared.Cluster(t)        // started by the first test that asks
//		cluster.AddUser(t, "alice", 41234)
//		dir := cluster.TempDir(t)           // here and on the node, at the same path
//		...
//
// Start returns a cluster of the test's own. What jobs can reach of this host is Cluster.Address, and nothing beyond.
//
// This host is the one that submits as far as a program can tell: the commands in Cluster.Bin run inside, as root, with
// the caller's working directory.
//
// Promises: no packet leaves this machine; whatever was started is gone when the test program is, even one that is
// killed. The package must not know the backend, for the backend's tests are its users.
package slurmtest

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"slipway/internal/testenv"
)

// Cluster is a cluster that runs.
type Cluster struct {
	Bin string // the commands, by their names
	Dir string // at the same path here and on the node; anybody may pass through

	name   string
	pid    string // of the container's first process, by the host's count
	reaper *testenv.Reaper

	mu    sync.Mutex
	users map[string]bool
}

// label marks containers; its value is the cluster's mark.
const label = "slipway.slurmtest"

// start starts a cluster. It returns one also when it fails, for then there is something to close.
func start() (*Cluster, error) {
	b := make([]byte, 5)
	rand.Read(b)
	mark := hex.EncodeToString(b)
	c := &Cluster{Dir: "/var/tmp/slipway-slurm-" + mark, name: "slipway-slurm-" + mark, users: map[string]bool{}}
	c.Bin = filepath.Join(c.Dir, "bin")
	image, err := testenv.SlurmImage()
	if err != nil {
		return c, err
	}
	if c.reaper, err = testenv.NewReaper(label, mark, c.Dir); err != nil {
		return c, err
	}
	for _, dir := range []string{c.Dir, c.Bin} {
		if err := errors.Join(os.Mkdir(dir, 0o755), os.Chmod(dir, 0o755)); err != nil {
			return c, err
		}
	}
	if err := c.startMachine(image, label+"="+mark); err != nil {
		return c, err
	}
	if c.pid, err = output(exec.Command("docker", "inspect", "--format", "{{.State.Pid}}", c.name)); err != nil {
		return c, err
	}
	if n, err := strconv.Atoi(c.pid); err != nil || n == 0 {
		return c, fmt.Errorf("the cluster does not run: %s", c.log())
	}
	return c, errors.Join(c.makeCommands(), c.awaitNode())
}

// startMachine starts the container in a network of its own. Without one there would be no address but the loopback's,
// and Slurm could not listen. Apptainer without setuid needs what is unconfined here, and no capability; and the kernel
// stacks no overlay on the container's own file system, on which /var/tmp would be.
func (c *Cluster) startMachine(image, label string) error {
	for _, argv := range [][]string{
		{"network", "create", "--internal", "--label", label, c.name},
		{
			"run", "--detach", "--name", c.name, "--label", label, "--hostname", "slurm", "--network", c.name,
			"--dns", "127.0.0.1", "--init", "--cap-add", "MKNOD", "--security-opt", "seccomp=unconfined",
			"--security-opt", "systempaths=unconfined", "--device", "/dev/fuse", "--volume", "/var/tmp",
			"--volume", c.Dir + ":" + c.Dir, image,
		},
	} {
		if _, err := output(exec.Command("docker", argv...)); err != nil {
			return err
		}
	}
	return nil
}

// Address returns this host's address, as the node sees it.
func (c *Cluster) Address(t testing.TB) string {
	t.Helper()
	address, err := output(exec.Command(
		"docker", "network", "inspect", "--format", "{{(index .IPAM.Config 0).Gateway}}", c.name,
	))
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// Close ends the cluster and removes all of it.
func (c *Cluster) Close() error {
	if c.reaper == nil {
		return nil
	}
	return c.reaper.Reap()
}

// machinePath is where programs are looked for inside.
const machinePath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// wrapper runs the command of its own name inside, with the caller's working directory.
const wrapper = `#!/bin/sh
case $(pwd)/ in '%[2]s'/*) there=$(pwd) ;; *) there=/ ;; esac # what is elsewhere is not to be seen there
exec env -i PATH=%[3]s HOME=/root LANG=C.UTF-8 "SLURM_TIME_FORMAT=$SLURM_TIME_FORMAT" \
  nsenter --target %[1]s --mount --uts --ipc --net --wdns="$there" -- "${0##*/}" "$@"
`

func (c *Cluster) makeCommands() error {
	first := filepath.Join(c.Bin, ".enter")
	err := os.WriteFile(first, fmt.Appendf(nil, wrapper, c.pid, c.Dir, machinePath), 0o755)
	for _, name := range []string{"sbatch", "squeue", "sacct", "scancel", "scontrol", "sinfo", "getent"} {
		err = errors.Join(err, os.Symlink(first, filepath.Join(c.Bin, name)))
	}
	return err
}

// awaitNode waits until the node takes jobs.
func (c *Cluster) awaitNode() error {
	var said string
	up := testenv.Within(testenv.Hang, func() bool {
		out, err := c.run("sinfo", "--noheader", "--partition=batch", "--format=%T")
		if said = out; err != nil {
			said = err.Error()
		}
		return err == nil && out == "idle"
	})
	if !up {
		return fmt.Errorf("the node does not take jobs: %s\n%s", said, c.log())
	}
	return nil
}

func (c *Cluster) log() string {
	out, _ := output(exec.Command("docker", "logs", "--tail", "40", c.name))
	return out
}

// run runs a command as root inside, without the container engine: it costs a tenth of the time.
func (c *Cluster) run(argv ...string) (string, error) {
	cmd := exec.Command("nsenter", append([]string{"--target", c.pid, "--mount", "--uts", "--ipc", "--net", "--"}, argv...)...)
	cmd.Env = []string{"PATH=" + machinePath, "HOME=/root", "LANG=C.UTF-8"}
	return output(cmd)
}

// output runs a command and returns what it wrote. What it complained of is in the error.
func output(cmd *exec.Cmd) (string, error) {
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(string(exit.Stderr)))
	}
	return strings.TrimSpace(string(out)), err
}

// Admin runs a command as root inside, and returns what it printed.
func (c *Cluster) Admin(t testing.TB, argv ...string) string {
	t.Helper()
	out, err := c.run(argv...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// AddUser makes an account on the node.
func (c *Cluster) AddUser(t testing.TB, login string, uid int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.users[login] {
		c.Admin(t, "useradd", "--uid", strconv.Itoa(uid), "--gid", "100", "--no-create-home", login)
	}
	c.users[login] = true
}

// TempDir returns a directory below Dir that anybody may pass through, and that goes with the test.
func (c *Cluster) TempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(c.Dir, "t")
	if err = errors.Join(err, os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// Signal sends the controller a signal, STOP or CONT: one that is stopped answers nobody.
func (c *Cluster) Signal(t testing.TB, signal string) {
	t.Helper()
	// by the engine: nsenter leaves the numbers of processes as the host has them
	_, err := output(exec.Command("docker", "exec", c.name, "pkill", "-"+signal, "-x", "slurmctld"))
	if err != nil {
		t.Fatal(err)
	}
}

// Start returns a cluster of the test's own, which ends with it.
func Start(t testing.TB) *Cluster {
	t.Helper()
	testenv.Need(t, testenv.Slurm)
	c, err := start()
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatalf("start a cluster: %v", err)
	}
	return c
}

// Shared is one cluster for all tests of a package, started by the first that asks.
type Shared struct {
	once    sync.Once
	cluster *Cluster
	err     error
}

// Main runs the package's tests and ends the cluster after them. It returns the exit code.
func (s *Shared) Main(m *testing.M) int {
	code := m.Run()
	s.once.Do(func() {}) // nobody starts it now
	if s.cluster == nil {
		return code
	}
	if err := s.cluster.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

// Cluster returns the cluster, or skips the test where none can be.
func (s *Shared) Cluster(t testing.TB) *Cluster {
	t.Helper()
	testenv.Need(t, testenv.Slurm)
	s.once.Do(func() { s.cluster, s.err = start() })
	if s.err != nil {
		t.Fatalf("start a cluster: %v", s.err)
	}
	return s.cluster
}
