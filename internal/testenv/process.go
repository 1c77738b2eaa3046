//go:build unix

package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// Process is a program that a test has started.
type Process struct {
	Cmd   *exec.Cmd
	Ended <-chan struct{} // closed once it has ended

	t   testing.TB
	log string
}

// Start starts a program, which is killed at the test's end with its process group. What it prints is shown where the
// test fails.
func Start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), filepath.Base(cmd.Path)+".log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p := Begin(t, cmd, log)
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-p.Ended
		ShowLog(t, filepath.Base(cmd.Path), log.Name())
	})
	return p
}

// Begin starts a program in a process group of its own, which prints to a file. Who begins it ends it.
func Begin(t testing.TB, cmd *exec.Cmd, log *os.File) *Process {
	t.Helper()
	cmd.Stdout, cmd.Stderr = log, log
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	return &Process{Cmd: cmd, Ended: ended, t: t, log: log.Name()}
}

// End ends the program by a signal, and waits until it has ended.
func (p *Process) End(s syscall.Signal) {
	_ = p.Cmd.Process.Signal(s)
	<-p.Ended
}

// Until waits for what the program is to do. It fails as soon as the program has ended, and shows its last lines.
func (p *Process) Until(what string, ok func() bool) {
	p.t.Helper()
	UntilUnlessDead(p.t, what, Hang, p.Ended, p.log, ok)
}
