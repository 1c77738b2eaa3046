package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// KeepCommand is the command of the agent's program that is Keep.
const KeepCommand = "worker-keep"

// lifeFD is where a keeper learns that its worker has been killed.
const lifeFD = 3

// Keep runs a container's program to its end, and gives the code of it. It is the whole of the program `slipway
// worker-keep ARGV...`: with it the container goes when the worker is killed, and with the worker when it is killed
// itself. A signal at the parent's death would not do: the kernel takes that back when Apptainer makes its namespace.
func Keep(ctx context.Context, argv []string) (int, error) {
	if len(argv) == 0 {
		return 0, errors.New("keep a container: no program is named")
	}
	if err := adoptOrphans(); err != nil {
		return 0, err
	}
	syscall.CloseOnExec(lifeFD)
	life := os.NewFile(lifeFD, "life")
	defer life.Close()
	pid, err := syscall.ForkExec(
		argv[0], argv,
		&syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setsid: true}},
	)
	if err != nil {
		return 0, fmt.Errorf("run %s: %w", argv[0], err)
	}
	all, ended := reaping(pid)
	alone := make(chan struct{})
	go func() { // ends with this process, which is about to end when the pipe does not
		defer close(alone)
		_, _ = io.Copy(io.Discard, life)
	}()
	code := await(ctx, pid, ended, alone)
	killChildren(all)
	return code, nil
}

// askEvery is the time between two requests to end: one that comes while Apptainer makes its container is lost.
const askEvery = time.Second

// await returns the code of a program when it has ended, or its keeper is alone. When ctx ends, it asks the program to
// end.
func await(ctx context.Context, pid int, ended <-chan syscall.WaitStatus, alone <-chan struct{}) int {
	stop := ctx.Done()
	again := time.NewTicker(askEvery)
	defer again.Stop()
	for {
		select {
		case status := <-ended:
			return codeOf(status)
		case <-alone:
			return killed
		case <-stop:
			stop = nil
		case <-again.C:
			if stop != nil {
				continue
			}
		}
		_ = syscall.Kill(pid, syscall.SIGTERM)
	}
}

// adoptOrphans makes what loses its parent below this process its child: so nothing gets away, and none stays behind as
// a zombie.
func adoptOrphans() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the parent of orphans: %w", err)
	}
	return nil
}

// codeOf returns an exit code, as shells have it.
func codeOf(s syscall.WaitStatus) int {
	if s.Signaled() {
		return 128 + int(s.Signal())
	}
	return s.ExitStatus()
}

// reaping collects every child, and tells how the one with the given process ID ended. all is closed when no child is
// left.
func reaping(pid int) (all <-chan struct{}, ended <-chan syscall.WaitStatus) {
	none, one := make(chan struct{}), make(chan syscall.WaitStatus, 1)
	go func() {
		defer close(none)
		for {
			var s syscall.WaitStatus
			switch got, err := syscall.Wait4(-1, &s, 0, nil); {
			case errors.Is(err, syscall.EINTR):
			case err != nil:
				return
			case got == pid:
				one <- s
			}
		}
	}()
	return none, one
}

// killChildren kills this process's children, and their children as they become its own, until there are none.
func killChildren(all <-chan struct{}) {
	every := time.NewTicker(killEvery)
	defer every.Stop()
	for {
		for _, pid := range children("/proc", os.Getpid()) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		select {
		case <-all:
			return
		case <-every.C:
		}
	}
}

// children lists the processes whose parent is a given one.
func children(proc string, parent int) []int {
	dir, err := os.Open(proc)
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var list []int
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		b, err := os.ReadFile(filepath.Join(proc, name, "stat"))
		if err == nil && parentIn(b) == parent {
			list = append(list, pid)
		}
	}
	return list
}

// parentIn reads the parent from /proc/PID/stat; 0: it is not there. The program's name, in parentheses, may hold
// anything.
func parentIn(stat []byte) int {
	at := bytes.LastIndex(stat, []byte(") "))
	if at < 0 {
		return 0
	}
	f := bytes.Fields(stat[at+2:])
	if len(f) < 2 {
		return 0
	}
	n, err := strconv.Atoi(string(f[1]))
	if err != nil {
		return 0
	}
	return n
}
