package driverrpc

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"slipway/internal/errs"
)

// Find returns the path of the helper by its name: beside the program that runs, or on PATH. A path is taken as it is.
func Find(name string) (string, error) {
	if self, err := os.Executable(); err == nil && !strings.Contains(name, "/") {
		if beside := filepath.Join(filepath.Dir(self), name); isProgram(beside) {
			return beside, nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", missing(name, err)
	}
	return path, nil
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

func missing(name string, err error) error {
	return errs.New(errs.Missing, "start the GPU helper %s: %w", name, err).
		With("install slipway-gpu beside slipway or on PATH, or set gpu.driver to none or simulated")
}

// startProcess starts the helper as a child. It is told to end when this process is killed: its input ends then, and it
// gets a signal, which the kernel sends when the thread ends that started it. So that thread is kept until the child is
// gone.
func startProcess(argv []string, stderr io.Writer) (Process, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stderr = stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
	cmd.WaitDelay = killGrace
	in, err := cmd.StdinPipe()
	if err != nil {
		return Process{}, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return Process{}, err
	}
	started, read, gone := make(chan error), make(chan struct{}), make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			<-read // Wait closes the pipes: what is in them would be lost
			gone <- cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		_, _ = in.Close(), out.Close()
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrPermission) {
			return Process{}, missing(argv[0], err)
		}
		return Process{}, err
	}
	kill := func() { _ = cmd.Process.Kill() }
	wait := func() error {
		close(read)
		return <-gone
	}
	return Process{In: in, Out: out, Kill: kill, Wait: wait}, nil
}

// logWriter makes lines of the log of what the helper writes to stderr.
type logWriter struct {
	log  *slog.Logger
	mu   sync.Mutex
	rest []byte
}

// longestWord is how much of a line is kept: a crash in a library can write anything.
const longestWord = 4 << 10

// Write takes a piece of the helper's stderr.
func (w *logWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rest = append(w.rest, p...)
	for {
		line, rest, found := bytes.Cut(w.rest, []byte("\n"))
		if !found {
			break
		}
		w.say(line)
		w.rest = rest
	}
	if len(w.rest) > longestWord {
		w.say(w.rest)
		w.rest = nil
	}
	return len(p), nil
}

func (w *logWriter) say(line []byte) {
	if len(line) > 0 {
		w.log.Info("GPU helper", "said", string(line[:min(len(line), longestWord)]))
	}
}
