package docker

import (
	"errors"
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// waker is a process beside this one that wakes a container if this one dies: see package wake. The zero waker does
// nothing.
type waker struct {
	mu   sync.Mutex
	cmd  *exec.Cmd
	held *os.File      // the end of a pipe that nobody else has: the kernel closes it with this process
	gone chan struct{} // closed when the process has ended
}

// mostWakers bounds how often one is started anew that somebody kills.
const mostWakers = 5

// start starts the process, and another when that is killed while the container is held.
func (w *waker) start(b *Backend, container string) {
	if b.cfg.Self == "" || w.process() != 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.launch(b, container, mostWakers)
}

// launch starts the process. The lock is held.
func (w *waker) launch(b *Backend, container string, left int) {
	cmd, held, err := wakerOf(b, container)
	if err != nil {
		b.log.Warn("nothing wakes a session if the service dies while it is frozen", "error", err)
		return
	}
	gone := make(chan struct{})
	w.cmd, w.held, w.gone = cmd, held, gone
	go func() { // ends with the process, which stop awaits
		err := cmd.Wait()
		_ = held.Close()
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.cmd == cmd {
			w.cmd = nil
			if err != nil && left > 1 {
				b.log.Warn("what wakes a session if the service dies has ended; it is started anew", "error", err)
				w.launch(b, container, left-1)
			}
		}
		close(gone)
	}()
}

// wakerOf starts the process away from this one's group, with the reading end of a pipe.
func wakerOf(b *Backend, container string) (*exec.Cmd, *os.File, error) {
	r, held, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	cmd := exec.Command(b.cfg.Self, "docker-wake", b.host, container)
	cmd.Stdin, cmd.Env, cmd.Dir = r, []string{}, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, nil, errors.Join(err, held.Close())
	}
	return cmd, held, nil
}

// stop ends the process, for the container goes on.
func (w *waker) stop() {
	w.mu.Lock()
	cmd, gone := w.cmd, w.gone
	w.cmd = nil
	w.mu.Unlock()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Kill() // an error when it has just ended by itself
	<-gone
}

// process returns the process's ID; 0: there is none.
func (w *waker) process() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cmd == nil {
		return 0
	}
	return w.cmd.Process.Pid
}
