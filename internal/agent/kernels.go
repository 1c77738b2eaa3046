package agent

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"slipway/internal/agent/control"
	"slipway/internal/agent/kernel"
	"slipway/internal/agent/process"
	"slipway/internal/errs"
	"slipway/kernels/wire"
)

// startKernel has an app that is a kernel kept running. It is ready when it answers, and has exited when it is dead.
//
// A kernel's environment has no JPY_PARENT_PID: ipykernel would look whether its parent is the first process, which the
// agent is in a container, and take that for its parent's death. The agent ends it instead.
func (s *supervisor) startKernel(app control.App, program, dir string, env []string, before process.Memory) error {
	a, out := s.agent, s.out
	a.rounds.know(app.Doctor)
	env, dir = withoutApps(env), kernelDir(env, dir)
	var last process.End // under the lock
	last.Before = before
	k, err := kernel.New(kernel.Config{
		Dir: a.cfg.KernelDir, Message: app.Kernel.InterruptMode == "message", Anew: plain(app.Kernel.Anew),
		Logger: a.log,
		Ready: func() {
			s.set(func(st *control.Status) { st.State = control.Ready })
			a.rounds.begin()
		},
		Start: func(file string) (kernel.Process, error) {
			return s.forkKernel(program, connected(app.Argv, file), dir, env, &last)
		},
	})
	if err != nil {
		return err
	}
	s.kernel = k
	a.work.Go(func() {
		why := ""
		if err := k.Run(a.ctx); err != nil {
			why = errs.Brief(err)
		}
		s.mu.Lock()
		e := last
		s.mu.Unlock()
		s.exited(e.Exit, out, e.Before, why)
	})
	return nil
}

// kernelDir returns the directory that a kernel's client has named, such as its notebook's, if it is there; else the
// usual one.
func kernelDir(env []string, usual string) string {
	dir := variable(env, wire.DirVariable)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() || !filepath.IsAbs(dir) {
		return usual
	}
	return dir
}

// connected puts the path of the connection file where the kernelspec wants it.
func connected(argv []string, file string) []string {
	var list []string
	for _, arg := range argv {
		list = append(list, strings.ReplaceAll(arg, control.ConnectionFile, file))
	}
	return list
}

// forkKernel starts a process of the kernel's. Its end is left in last.
func (s *supervisor) forkKernel(
	program string, argv []string, dir string, env []string, last *process.End,
) (kernel.Process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending {
		return kernel.Process{}, errs.New(errs.Conflict, "the agent is ending")
	}
	before := process.ReadMemory(cgroupRoot)
	pid, done, pipe, err := s.forkOrTake(program, argv, dir, env)
	if err != nil {
		code, reason := process.CannotRun(argv[0], true, err)
		*last = process.End{Exit: process.Exit{Status: syscall.WaitStatus(code << 8)}, Before: before}
		return kernel.Process{}, errs.New(errs.Invalid, "%s", reason)
	}
	s.agent.log.Info("kernel started", "program", program, "pid", pid)
	s.pid = pid
	over, end := make(chan struct{}), process.End{Before: before}
	s.agent.work.Go(func() {
		defer close(over)
		end.Exit = keepOutput(s.out, pipe, func() process.Exit { return <-done })
		end.After = process.ReadMemory(cgroupRoot)
		s.mu.Lock()
		defer s.mu.Unlock()
		*last, s.pid = end, 0
	})
	return kernel.Process{
		PID: pid, Over: over, How: func() (string, string) { return end.Words() },
		Count: func(d *control.Deaths) { end.Count(d) },
	}, nil
}

// kernelNow returns the kernel that the app is, dead or alive; nil: it is none.
func (s *supervisor) kernelNow() *kernel.Kernel {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kernel
}

func (s *supervisor) needKernel() (*kernel.Kernel, error) {
	if k := s.kernelNow(); k != nil {
		return k, nil
	}
	return nil, errs.New(errs.NotFound, "this workload has no kernel")
}

func (a *agent) serveKernel(w http.ResponseWriter, _ *http.Request) {
	k, err := a.app.needKernel()
	if err != nil {
		control.WriteError(w, err)
		return
	}
	_ = json.NewEncoder(w).Encode(k.Status())
}

// toKernel serves a stream of one of the kernel's clients.
func (a *agent) toKernel(ctx context.Context, c net.Conn) {
	k, err := a.app.needKernel()
	if err != nil {
		kernel.Refuse(c, errs.Brief(err))
		return
	}
	k.Serve(ctx, c)
}
