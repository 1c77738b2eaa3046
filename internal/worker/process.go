package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	defaultGrace = 10 * time.Second
	leaveTime    = 5 * time.Second // for the agent, beyond its app's grace, to write down how it went
	killEvery    = 20 * time.Millisecond
	tailSize     = 16 << 10
)

// how is the way in which the container's program ended.
type how struct {
	code  int  // as shells have it
	asked bool // it was to end
	late  bool // its time was up
	tail  string
}

// run runs the container to its end, and ends all that is left of it.
func (w *worker) run(ctx context.Context, c command) (how, error) {
	if err := adoptOrphans(); err != nil {
		return how{}, err
	}
	pid, output, life, err := w.start(c)
	if err != nil {
		return how{}, err
	}
	last := &tail{limit: tailSize}
	all, ended := reaping(pid)
	var reading sync.WaitGroup
	reading.Go(func() { _, _ = io.Copy(last, output) })
	h := w.attend(ctx, pid, ended)
	killChildren(all)
	_ = output.SetReadDeadline(time.Now().Add(killEvery)) // nobody is left to write
	reading.Wait()
	h.tail = last.text()
	return h, errors.Join(output.Close(), life.Close())
}

// start starts the keeper of the container, which lives no longer than life is open.
func (w *worker) start(c command) (pid int, output, life *os.File, err error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, nil, nil, err
	}
	defer null.Close()
	output, into, err := os.Pipe()
	if err != nil {
		return 0, nil, nil, err
	}
	defer into.Close()
	lives, life, err := os.Pipe()
	if err != nil {
		return 0, nil, nil, errors.Join(err, output.Close())
	}
	defer lives.Close()
	pid, err = syscall.ForkExec(w.cfg.Program, append(
		[]string{w.cfg.Program, KeepCommand}, c.argv...,
	), &syscall.ProcAttr{
		Dir: w.box.dir, Env: c.env, Files: []uintptr{null.Fd(), into.Fd(), into.Fd(), lives.Fd()},
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return 0, nil, nil, errors.Join(fmt.Errorf("run %s: %w", w.cfg.Program, err), output.Close(), life.Close())
	}
	return pid, output, life, nil
}

// attend waits for the end of the container's program. It passes on the request to end, and asks for the end itself
// when the time is up; what does not end then is killed.
func (w *worker) attend(ctx context.Context, pid int, ended <-chan syscall.WaitStatus) (h how) {
	var limit, patience <-chan time.Time
	if w.plan.TimeLimit > 0 {
		limit = time.After(w.plan.TimeLimit)
	}
	grace := w.plan.Grace
	if grace <= 0 {
		grace = defaultGrace
	}
	ask := func() {
		_ = syscall.Kill(pid, syscall.SIGTERM)
		patience = time.After(grace + leaveTime)
	}
	stop := ctx.Done()
	for {
		select {
		case status := <-ended:
			h.code = codeOf(status)
			return h
		case <-stop:
			stop, h.asked = nil, true
			ask()
		case <-limit:
			h.late = true
			ask()
		case <-patience:
			w.log.Warn("the agent did not end when asked: killing it", "grace", grace)
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
