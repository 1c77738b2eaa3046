// Package autofs runs a real automount for tests: a look-alike of CVMFS whose repositories are squashfs files, mounted
// when somebody first looks and unmounted when nobody has for a while. Of all programs of a machine one automount alone
// can run: tests take turns.
package autofs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"slipway/internal/testenv"
)

// The repositories that are there from the beginning, and one whose server never answers.
const (
	Repository = "test.example.org" // has hello.txt
	Dead       = "dead.example.org"
)

// Idle is after how many seconds a repository is unmounted, and a little.
const Idle = 2

// Autofs is a running automount.
type Autofs struct {
	Dir string // its directory; on a shared mount of its own

	t      testing.TB
	work   string
	daemon *exec.Cmd
	ended  chan struct{} // of the daemon
}

// Start makes the directory and starts automount in it. Both are gone at the test's end, whatever is busy there.
func Start(t testing.TB) *Autofs {
	t.Helper()
	testenv.Need(t, testenv.Root, testenv.Autofs, testenv.Mksquashfs, testenv.Loop)
	turn(t)
	work, err := os.MkdirTemp("/var/tmp", "slipway-autofs-")
	if err != nil {
		t.Fatal(err)
	}
	a := &Autofs{Dir: filepath.Join(work, "cvmfs"), t: t, work: work}
	t.Cleanup(a.remove)
	a.must(os.Chmod(work, 0o755))
	a.must(os.Mkdir(a.Dir, 0o755))
	a.Run("mount", "--bind", work, work)
	a.Run("mount", "--make-rshared", work)
	a.Publish(Repository, map[string]string{"hello.txt": "hello from " + Repository + "\n"})
	a.write("auto.master", a.Dir+" program:"+filepath.Join(work, "map")+fmt.Sprintf(" --timeout=%d\n", Idle), 0o644)
	a.write("map", fmt.Sprintf(`#!/bin/sh
case $1 in dead.*) echo $$ >>%[1]s/hung && exec sleep 100000 ;; esac
if [ -f %[1]s/$1.squashfs ]; then echo "-fstype=squashfs,loop,ro,nodev,nosuid :%[1]s/$1.squashfs"; fi
`, work), 0o755)
	a.Up()
	return a
}

// turn waits until no other test has an automount.
func turn(t testing.TB) {
	f, err := os.OpenFile("/var/lock/slipway-test-autofs", os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if exec.Command("pidof", "automount").Run() != nil {
		return
	}
	if said := "an automount runs here that is not the tests': end it"; strings.Contains(os.Getenv("SLIPWAY_TEST_REQUIRE"), string(testenv.Autofs)) {
		t.Fatal(said)
	} else {
		t.Skip(said)
	}
}

// Publish makes a repository of files.
func (a *Autofs) Publish(name string, files map[string]string) {
	a.t.Helper()
	dir := a.t.TempDir()
	for file, text := range files {
		a.must(os.MkdirAll(filepath.Join(dir, filepath.Dir(file)), 0o755))
		a.must(os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644))
	}
	a.PublishTree(name, dir)
}

// PublishTree makes a repository of a directory.
func (a *Autofs) PublishTree(name, dir string) {
	a.t.Helper()
	a.Run(
		"mksquashfs", dir, filepath.Join(a.work, name+".squashfs"), "-quiet", "-no-progress", "-noappend", "-all-root",
		"-processors", "1",
	)
}

// Master puts another master map in the place of this one's: one for /cvmfs and the client's program.
func (a *Autofs) Master(text string) {
	a.t.Helper()
	a.write(
		"auto.master",
		strings.NewReplacer("/etc/auto.cvmfs", filepath.Join(a.work, "map"), "\n/cvmfs ", "\n"+a.Dir+" ").Replace(text),
		0o644,
	)
}

// Up starts automount, and returns when a repository can be read.
func (a *Autofs) Up() {
	a.t.Helper()
	a.daemon = exec.Command("automount", "-f", filepath.Join(a.work, "auto.master"))
	a.daemon.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	log, err := os.OpenFile(filepath.Join(a.work, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	a.must(err)
	defer log.Close()
	a.daemon.Stdout, a.daemon.Stderr = log, log
	a.must(a.daemon.Start())
	a.ended = make(chan struct{})
	go func(daemon *exec.Cmd, ended chan struct{}) { _ = daemon.Wait(); close(ended) }(a.daemon, a.ended)
	a.await("automount serves", func() bool {
		_, err := os.ReadFile(filepath.Join(a.Dir, Repository, "hello.txt"))
		return err == nil
	})
}

// Down asks automount to end, as a package's upgrade does. What is busy stays mounted.
func (a *Autofs) Down() { a.end(syscall.SIGTERM) }

// Kill kills automount.
func (a *Autofs) Kill() { a.end(syscall.SIGKILL) }

func (a *Autofs) end(s syscall.Signal) {
	a.t.Helper()
	if a.daemon == nil {
		return
	}
	_ = a.daemon.Process.Signal(s)
	hasEnded := func() bool {
		a.endHung()
		select {
		case <-a.ended:
			return true
		default:
			return false
		}
	}
	if !testenv.Within(testenv.Hang, hasEnded) {
		a.t.Error("automount does not end")
	}
	_ = syscall.Kill(-a.daemon.Process.Pid, syscall.SIGKILL) // programs of its maps
	a.daemon = nil
}

// endHung ends what never answers, for automount waits for it.
func (a *Autofs) endHung() {
	pids, _ := os.ReadFile(filepath.Join(a.work, "hung"))
	for _, field := range strings.Fields(string(pids)) {
		if pid, err := strconv.Atoi(field); err == nil && pid > 1 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	_ = os.Remove(filepath.Join(a.work, "hung"))
}

// Mounted reports whether a repository is mounted on this host.
func (a *Autofs) Mounted(name string) bool { return mountsBelow(filepath.Join(a.Dir, name)) > 0 }

// AwaitExpiry waits until nobody's use keeps a repository mounted any more.
func (a *Autofs) AwaitExpiry(name string) {
	a.t.Helper()
	a.await(name+" is unmounted for want of use", func() bool { return !a.Mounted(name) })
}

func (a *Autofs) await(what string, done func() bool) {
	a.t.Helper()
	testenv.UntilUnlessDead(a.t, what, testenv.Hang, a.ended, filepath.Join(a.work, "log"), done)
}

// remove takes down what is there: a test that fails may have left anything.
func (a *Autofs) remove() {
	a.end(syscall.SIGTERM)
	for range 100 {
		if mountsBelow(a.work) == 0 {
			break
		}
		_ = exec.Command("umount", "--lazy", "--recursive", a.work).Run()
	}
	if n := mountsBelow(a.work); n > 0 {
		a.t.Errorf("%d mounts are left below %s", n, a.work)
		return
	}
	_ = os.RemoveAll(a.work)
}

// mountsBelow counts the mounts at dir and below it.
func mountsBelow(dir string) (n int) {
	info, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(info)) {
		if f := strings.Fields(line); len(f) > 4 && (f[4] == dir || strings.HasPrefix(f[4], dir+"/")) {
			n++
		}
	}
	return n
}

// Run runs a program.
func (a *Autofs) Run(argv ...string) {
	a.t.Helper()
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		a.t.Fatalf("%s: %v: %s", strings.Join(argv, " "), err, out)
	}
}

func (a *Autofs) write(name, text string, mode os.FileMode) {
	a.t.Helper()
	a.must(os.WriteFile(filepath.Join(a.work, name), []byte(text), mode))
	a.must(os.Chmod(filepath.Join(a.work, name), mode))
}

func (a *Autofs) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}
