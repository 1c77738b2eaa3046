package agent

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/agent/process"
	"slipway/internal/errs"
)

const (
	codeProgram = "code-server"
	codeWait    = time.Minute      // for VS Code's server to come up beside another app
	codeUnused  = 30 * time.Minute // after that it is ended there
	codeGrace   = 5 * time.Second
	codeDies    = time.Second // for its end to be seen, when its socket is dead
	codeTries   = 2
)

// beside is a code-server that is not the app.
type beside struct {
	pid  int
	up   chan struct{} // closed when it listens
	over chan struct{} // closed when it has ended
}

// dialBeside opens a connection to a code-server beside the app. One that has just died is started again.
func (c *code) dialBeside(ctx context.Context) (net.Conn, error) {
	for range codeTries {
		run, err := c.await(ctx)
		if err != nil {
			return nil, err
		}
		conn, err := c.connect(ctx)
		if err == nil || ctx.Err() != nil {
			return conn, err
		}
		select {
		case <-run.over:
		case <-time.After(codeDies):
			return nil, errSilent
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return nil, errSilent
}

// await returns a code-server beside the app when it listens.
func (c *code) await(ctx context.Context) (*beside, error) {
	ctx, cancel := context.WithTimeout(ctx, codeWait)
	defer cancel()
	run, err := c.begin()
	if err != nil {
		return nil, err
	}
	select {
	case <-run.up:
		return run, nil
	case <-run.over:
		return nil, errs.New(errs.Unavailable, "VS Code ended when it was started").
			With("try again; the session's log says why")
	case <-ctx.Done():
		return nil, errs.New(errs.Unavailable, "VS Code has not come up yet").With("try again in a minute")
	}
}

// begin starts code-server unless it runs.
func (c *code) begin() (*beside, error) {
	s := c.agent.app
	out, state, _ := s.printed()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used = time.Now()
	if c.run != nil && !closed(c.run.over) {
		return c.run, nil
	}
	if out == nil || state == control.Exited || closed(c.agent.finished) {
		return nil, errs.New(errs.Unavailable, "the session is ending").
			With("start it again on the Hub's home page: what you changed is kept")
	}
	program, err := process.Find(codeProgram, "/", variable(c.env, "PATH"))
	if err != nil {
		return nil, errs.New(
			errs.Missing, "the image of this session has no VS Code: there is no program %s in it", codeProgram,
		).With("start a session from an image that has it, or ask its maker to add it")
	}
	if err := c.makeDirs(keepsIn(c.env)); err != nil {
		return nil, err
	}
	dir, err := directory(c.app.Dir, c.agent.cfg.WorkDir)
	if err != nil {
		return nil, err
	}
	pid, done, pipe, err := s.fork(program, c.argv(codeProgram, dir), dir, c.env)
	if err != nil {
		return nil, fmt.Errorf("start VS Code: %w", err)
	}
	c.agent.log.Info("VS Code started", "program", program, "pid", pid)
	run := &beside{pid: pid, up: make(chan struct{}), over: make(chan struct{})}
	c.run = run
	c.agent.work.Go(func() { c.follow(run, done, pipe, out) })
	return run, nil
}

// follow watches over a code-server until it has ended.
func (c *code) follow(run *beside, done <-chan process.Exit, pipe *os.File, out io.Writer) {
	var all sync.WaitGroup
	all.Go(func() { drain(out, pipe) })
	all.Go(func() {
		if c.question().answered(c.agent.ctx, run.over) {
			close(run.up)
		}
	})
	e := <-done
	code, reason := process.ExitCode(e.Status)
	c.agent.log.Info("VS Code ended", "code", code, "reason", reason)
	close(run.over)
	_ = pipe.SetReadDeadline(time.Now().Add(drainTime))
	all.Wait()
	_ = pipe.Close()
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// end ends what runs beside the app.
func (c *code) end() {
	c.mu.Lock()
	run := c.run
	c.mu.Unlock()
	if run != nil {
		run.end()
	}
}

func (r *beside) end() {
	if closed(r.over) {
		return
	}
	_ = syscall.Kill(-r.pid, syscall.SIGTERM)
	t := time.NewTimer(codeGrace)
	defer t.Stop()
	select {
	case <-r.over:
	case <-t.C:
		_ = syscall.Kill(-r.pid, syscall.SIGKILL)
	}
}

// retire ends a code-server beside the app when it has not been used for long, until ctx ends.
func (c *code) retire(ctx context.Context) {
	every := time.NewTicker(time.Minute)
	defer every.Stop()
	for {
		select {
		case now := <-every.C:
			if run := c.unused(now); run != nil && onlyItself("/proc", run.pid) {
				c.agent.log.Info("VS Code is not used: ending it", "pid", run.pid)
				run.end()
			}
		case <-ctx.Done():
			return
		}
	}
}

// unused returns what runs beside the app and has had no visitor for long; nil: there is none.
func (c *code) unused(now time.Time) *beside {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.run == nil || closed(c.run.over) {
		return nil
	}
	t := c.gate.Traffic()
	if t.Open > 0 || now.Sub(c.used) < codeUnused || now.Sub(t.Ended) < codeUnused {
		return nil
	}
	return c.run
}

// onlyItself reports whether nothing runs below a process but its own program: no terminal and no kernel, in which
// somebody may have left work.
func onlyItself(proc string, pid int) bool {
	own, err := os.Readlink(filepath.Join(proc, strconv.Itoa(pid), "exe"))
	if err != nil {
		return false
	}
	children := map[int][]int{}
	for _, p := range process.List(proc) {
		children[p.Parent] = append(children[p.Parent], p.Pid)
	}
	for next := []int{pid}; len(next) > 0; next = next[1:] {
		if exe, err := os.Readlink(filepath.Join(proc, strconv.Itoa(next[0]), "exe")); err == nil && exe != own {
			return false
		}
		next = append(next, children[next[0]]...)
	}
	return true
}
