package agent

import (
	_ "embed"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"slipway/internal/agent/control"
	"slipway/internal/agent/process"
	"slipway/kernels/wire"
)

// standbyProgram becomes an ipykernel when it is told to.
//
//go:embed standby.py
var standbyProgram string

// standby is a Python that has imported what a kernel imports, and waits to become it. It is the same user's and has
// the same environment as the kernel will have; only what the kernel's client says is not known yet.
type standby struct {
	program string
	flags   []string // of the interpreter
	env     []string
	pid     int
	done    <-chan process.Exit
	pipe    *os.File // what it prints
	order   *os.File
}

// pythonKernel splits the command of an ipykernel into the interpreter with its flags and the arguments behind the
// module; false: it is something else. What a flag of two words would mean is not known here.
func pythonKernel(argv []string) (flags, rest []string, ok bool) {
	at := slices.Index(argv, "-m")
	if at < 1 || at+1 >= len(argv) || argv[at+1] != "ipykernel_launcher" || !strings.HasPrefix(filepath.Base(argv[0]), "python") {
		return nil, nil, false
	}
	for _, flag := range argv[1:at] {
		if !strings.HasPrefix(flag, "-") || flag == "-X" || flag == "-W" {
			return nil, nil, false
		}
	}
	return argv[1:at], argv[at+2:], true
}

// standBy starts a Python for the kernel that is to come, once. Where it cannot, the kernel just starts later.
func (s *supervisor) standBy(app control.App) {
	flags, _, ok := pythonKernel(app.Argv)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !ok || app.Kernel == nil || s.standby != nil || s.ending || s.status.Launch != "" {
		return
	}
	if err := s.startStandby(app, flags); err != nil {
		s.agent.log.Warn("no Python stands by for the kernel", "error", err)
	}
}

func (s *supervisor) startStandby(app control.App, flags []string) error {
	dir, err := directory(app.Dir, s.agent.cfg.WorkDir)
	if err != nil {
		return err
	}
	env, err := environ(s.agent.cfg, app, 0, "")
	if err != nil {
		return err
	}
	env = withoutApps(env)
	program, err := process.Find(app.Argv[0], dir, variable(env, "PATH"))
	if err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	argv := slices.Concat(app.Argv[:1], flags, []string{"-c", standbyProgram})
	pid, done, pipe, err := s.fork(program, argv, dir, env, r.Fd())
	if err != nil {
		_ = w.Close()
		return err
	}
	s.standby = &standby{program: program, flags: flags, env: env, pid: pid, done: done, pipe: pipe, order: w}
	return nil
}

// dismiss ends what stands by. The lock is held.
func (s *supervisor) dismiss() {
	b := s.standby
	if b == nil {
		return
	}
	s.standby = nil
	_ = b.order.Close()
	if !b.over() {
		_ = syscall.Kill(-b.pid, syscall.SIGKILL)
	}
	<-b.done
	_ = b.pipe.Close()
}

// forkOrTake starts a process of a kernel: it lets the Python that stands by become it, if that is what the kernel
// would be. The lock is held.
func (s *supervisor) forkOrTake(
	program string, argv []string, dir string, env []string,
) (int, <-chan process.Exit, *os.File, error) {
	b := s.standby
	if b == nil || !b.fits(program, argv, env) || b.over() {
		s.dismiss()
		return s.fork(program, argv, dir, env)
	}
	s.standby = nil
	s.agent.work.Go(func() { b.become(argv, dir, env) })
	return b.pid, b.done, b.pipe, nil
}

// fits reports whether a kernel would begin as the Python did. What its client says does not matter to an interpreter.
func (b *standby) fits(program string, argv, env []string) bool {
	flags, _, ok := pythonKernel(argv)
	return ok && program == b.program && slices.Equal(flags, b.flags) && slices.Equal(early(env), early(b.env))
}

// early returns the variables of an environment that may matter before a kernel begins.
func early(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		return strings.HasPrefix(kv, wire.VariablePrefix) || strings.HasPrefix(kv, control.ProxyFileEnv+"=")
	})
}

// over reports whether it has ended.
func (b *standby) over() bool {
	select {
	case e := <-b.done:
		again := make(chan process.Exit, 1)
		again <- e
		b.done = again
		return true
	default:
		return false
	}
}

// become tells it what it is. One that has ended meanwhile is a kernel that has ended.
func (b *standby) become(argv []string, dir string, env []string) {
	_, rest, _ := pythonKernel(argv)
	vars := map[string]string{}
	for _, kv := range env {
		if k, v, ok := strings.Cut(kv, "="); ok {
			vars[k] = v
		}
	}
	line, err := json.Marshal(map[string]any{"program": b.program, "argv": argv, "rest": rest, "dir": dir, "env": vars})
	if err == nil {
		_, _ = b.order.Write(append(line, '\n'))
	}
	_ = b.order.Close()
}
