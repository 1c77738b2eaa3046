package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/agent/kernel"
	"slipway/internal/agent/process"
	"slipway/internal/errs"
	"slipway/internal/tunnel"
)

const (
	drainTime  = 500 * time.Millisecond // for output that the app's children still hold when it has exited
	cgroupRoot = "/sys/fs/cgroup"
)

// supervisor starts the app once and knows where it is.
type supervisor struct {
	agent *agent
	files *workdir

	mu      sync.Mutex
	status  control.Status
	changed chan struct{} // closed at the next change of status
	grace   time.Duration
	pid     int
	port    int
	jupyter *jupyter       // nil: the app has none of its API
	kernel  *kernel.Kernel // nil: the app is none
	standby *standby       // waits to become the kernel; nil: none does
	others  []string       // the environment of the session's other programs
	out     *output
	over    chan struct{} // closed when the app has exited and its output is complete
	untest  func()        // ends the self-test; nil: there is none
	ending  bool
	kill    sync.Once
}

func newSupervisor(a *agent) *supervisor {
	return &supervisor{agent: a, files: newWorkdir(a.cfg.WorkDir), status: control.Status{State: control.Idle},
		changed: make(chan struct{}), over: make(chan struct{})}
}

// now returns the status, and a channel that is closed when it is no longer so.
func (s *supervisor) now() (control.Status, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.status
	if s.out != nil {
		st.LogSize = s.out.total()
	}
	return st, s.changed
}

// process returns the app's; 0: it does not run.
func (s *supervisor) process() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status.State == control.Exited {
		return 0
	}
	return s.pid
}

func (s *supervisor) set(f func(*control.Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setLocked(f)
}

func (s *supervisor) setLocked(f func(*control.Status)) {
	f(&s.status)
	close(s.changed)
	s.changed = make(chan struct{})
}

// printed returns the app's output, nil before the launch and when the app could not be started.
func (s *supervisor) printed() (*output, control.State, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out, s.status.State, s.changed
}

// listening returns the port of an HTTP app, 0 when there is none.
func (s *supervisor) listening() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.port
}

// server returns the Jupyter Server that the app is, nil when it is none or does not run: another program of the node
// may then have its port.
func (s *supervisor) server() *jupyter {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status.State != control.Ready {
		return nil
	}
	return s.jupyter
}

// surroundings returns the environment of programs beside the app.
func (s *supervisor) surroundings() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.others
}

func (s *supervisor) launched() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status.Launch != ""
}

// launch starts the app, once. An app that cannot be started has exited, with the reason in its status.
func (s *supervisor) launch(app control.App) error {
	if app.Launch == "" {
		return errs.Bad("launch", "", "a name for this launch")
	}
	if len(app.Argv) == 0 || app.Argv[0] == "" {
		return errs.Bad("argv", fmt.Sprint(app.Argv), "a program and its arguments")
	}
	if app.Standby {
		s.standBy(app)
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.status.Launch == app.Launch:
		return nil
	case s.status.Launch != "":
		return errs.New(errs.Conflict, "the agent has launched %s already", s.status.Launch)
	case s.ending:
		return errs.New(errs.Conflict, "the agent is ending")
	}
	// What is wrong with it, the app's start tells.
	others, _ := environ(s.agent.cfg, control.App{Env: app.Env, Rescue: app.Rescue}, 0, "")
	s.others = withoutApps(others)
	s.grace = app.Grace
	if s.grace <= 0 {
		s.grace = defaultGrace
	}
	s.setLocked(func(st *control.Status) {
		st.Launch, st.State, st.Started = app.Launch, control.Starting, time.Now()
	})
	if app.SelfTest == nil || s.openOutput(app) != nil { // without a log the app cannot be started either, and says why
		s.begin(app)
		return nil
	}
	ctx, cancel := context.WithCancel(s.agent.ctx)
	s.untest = cancel
	s.agent.work.Go(func() {
		defer cancel()
		s.beginTested(ctx, app)
	})
	return nil
}

// begin starts the app, or says that it could not be started.
func (s *supervisor) begin(app control.App) {
	if code, reason := s.start(app); reason != "" {
		s.notStarted(code, reason, "")
	}
}

// notStarted is the end of an app that never ran.
func (s *supervisor) notStarted(code int, reason, fault string) {
	s.agent.log.Warn("the app was not started", "launch", s.status.Launch, "reason", reason)
	if s.out != nil {
		s.out.close()
	}
	s.setLocked(func(st *control.Status) {
		st.State, st.ExitCode, st.Reason, st.Fault, st.Ended = control.Exited, code, reason, fault, time.Now()
	})
	close(s.over)
}

// start brings the app up and has it watched. A reason says why it could not.
func (s *supervisor) start(app control.App) (int, string) {
	a := s.agent
	fail := func(err error) (int, string) { return 126, fmt.Sprintf("cannot run %q: %v", app.Argv[0], err) }
	if dir := rescueDir(a.cfg, app); dir != "" {
		if err := prepareRescue(dir); err != nil {
			return fail(err)
		}
	}
	dir, err := directory(app.Dir, a.cfg.WorkDir)
	if err != nil {
		return fail(err)
	}
	relay, err := s.prepareHTTP(app)
	if err != nil {
		return fail(err)
	}
	env, err := environ(a.cfg, app, s.port, relay)
	if err == nil && (app.Jupyter || app.Kernel != nil) && len(app.Stacks) > 0 {
		env, err = withStacks(env, a.cfg.JupyterDir, app.Stacks)
	}
	if err != nil {
		return fail(err)
	}
	if app.HTTP && app.Slices {
		env = s.keepSlices(env)
	}
	if app.HTTP {
		if err := a.code.prepare(app, env); err != nil {
			return fail(err)
		}
	}
	if app.Code {
		app.Argv, env = a.code.argv(app.Argv...), a.code.environ(env)
	}
	if app.HTTP && app.Jupyter {
		s.jupyter = newJupyter(env, loopback(s.port))
	}
	program, err := process.Find(app.Argv[0], dir, variable(env, "PATH"))
	if err != nil {
		return process.CannotRun(app.Argv[0], false, err)
	}
	if err := s.openOutput(app); err != nil {
		return fail(err)
	}
	before := process.ReadMemory(cgroupRoot)
	if app.Kernel != nil {
		if err := s.startKernel(app, program, dir, env, before); err != nil {
			return fail(err)
		}
		return 0, ""
	}
	progress := &progressFile{path: a.cfg.Progress}
	pid, done, pipe, err := s.fork(program, app.Argv, dir, env)
	if err != nil {
		return process.CannotRun(app.Argv[0], true, err)
	}
	s.pid = pid
	a.log.Info("app started", "launch", app.Launch, "program", program, "pid", pid)
	a.work.Go(func() { s.watch(done, pipe, s.out, before, progress) })
	if app.HTTP { // a job or a kernel ends with it, and says so
		a.work.Go(func() { s.watchMemory(cgroupRoot, before) })
	}
	s.becomeReady(app)
	return 0, ""
}

// openOutput begins the log of the launch, once.
func (s *supervisor) openOutput(app control.App) error {
	if s.out != nil {
		return nil
	}
	limit, session := s.agent.cfg.KeepLog, app.HTTP || app.Kernel != nil
	if session {
		limit = s.agent.cfg.RecentLog
	}
	out, err := newOutput(s.agent.cfg.LogFile, limit, session)
	if err == nil {
		s.out = out
	}
	return err
}

func directory(dir, fallback string) (string, error) {
	if dir == "" {
		return fallback, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("its working directory: %w", err)
	}
	return dir, nil
}

// prepareHTTP chooses the app's port and opens the relay to the Hub.
func (s *supervisor) prepareHTTP(app control.App) (relay string, err error) {
	if !app.HTTP {
		return "", nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") // first: else it could be given the port that was just found for the app
	if err != nil {
		return "", fmt.Errorf("open the relay to the Hub: %w", err)
	}
	if s.port, err = freePort(); err != nil {
		return "", errors.Join(err, l.Close())
	}
	a := s.agent
	a.work.Go(func() { a.relay(a.ctx, l, tunnel.DoorHub) })
	return l.Addr().String(), nil
}

// fork starts the program with its output in a pipe. It finds files open from descriptor 3 on.
func (s *supervisor) fork(
	program string, argv []string, dir string, env []string, files ...uintptr,
) (int, <-chan process.Exit, *os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return 0, nil, nil, err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, nil, nil, errors.Join(err, r.Close(), w.Close())
	}
	pid, done, err := s.agent.reaper.Start(
		program, argv,
		&syscall.ProcAttr{Dir: dir, Env: env, Files: append([]uintptr{null.Fd(), w.Fd(), w.Fd()}, files...)},
	)
	_, _ = null.Close(), w.Close()
	if err != nil {
		_ = r.Close()
		return 0, nil, nil, err
	}
	return pid, done, r, nil
}

// watch keeps the app's output until it exits, and then says how it ended.
func (s *supervisor) watch(
	done <-chan process.Exit, pipe *os.File, out *output, before process.Memory, progress *progressFile,
) {
	e := keepOutput(out, pipe, func() process.Exit { return s.await(done, progress) })
	s.exited(e, out, before, "")
}

// keepOutput keeps what a process prints until it has ended.
func keepOutput(out *output, pipe *os.File, await func() process.Exit) process.Exit {
	var reading sync.WaitGroup
	reading.Go(func() { drain(out, pipe) })
	e := await()
	_ = pipe.SetReadDeadline(time.Now().Add(drainTime))
	reading.Wait()
	_ = pipe.Close()
	return e
}

// exited says how the app ended, with a reason unless the end tells one.
func (s *supervisor) exited(e process.Exit, out *output, before process.Memory, why string) {
	out.close()
	code, reason := process.ExitCode(e.Status)
	if reason == "" {
		reason = why
	}
	if memory := process.ReadMemory(cgroupRoot).Exceeded(before); memory != "" && code != 0 {
		reason = memory
	}
	files := s.files.outputs()
	s.agent.log.Info("app exited", "code", code, "reason", reason)
	s.set(func(st *control.Status) {
		st.State, st.ExitCode, st.Reason, st.Ended, st.Files = control.Exited, code, reason, time.Now(), files
		st.Leaving = s.ending
		st.MaxRSS = e.Usage.Maxrss << 10
		st.CPU = seconds(e.Usage.Utime) + seconds(e.Usage.Stime)
	})
	close(s.over)
}

func seconds(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }

func drain(out io.Writer, pipe *os.File) {
	buf := make([]byte, 64<<10)
	for {
		n, err := pipe.Read(buf)
		_, _ = out.Write(buf[:n])
		if err != nil {
			return
		}
	}
}

// end ends the app: asks, waits its grace, kills. It gives the code that the app ended with.
func (s *supervisor) end() int {
	s.mu.Lock()
	s.ending = true
	if s.untest != nil {
		s.untest()
	}
	if s.kernel != nil {
		s.kernel.Stop()
	}
	s.dismiss()
	pid, grace, launched := s.pid, s.grace, s.status.Launch != ""
	s.mu.Unlock()
	if !launched {
		return 0
	}
	if pid != 0 {
		s.kill.Do(func() { s.terminate(pid, grace) })
	}
	<-s.over
	st, _ := s.now()
	return st.ExitCode
}

func (s *supervisor) terminate(pid int, grace time.Duration) {
	select {
	case <-s.over:
		return
	default:
	}
	_ = syscall.Kill(-pid, syscall.SIGTERM)
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-s.over:
	case <-t.C:
		s.agent.log.Warn("the app did not end when asked: killing it", "grace", grace)
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
}

// memoryEvery is how often it is looked whether the kernel has killed something of a session.
const memoryEvery = 2 * time.Second

// watchMemory tells of each process that was killed for want of memory while the app goes on, until that has exited.
func (s *supervisor) watchMemory(root string, before process.Memory) {
	tick := time.NewTicker(memoryEvery)
	defer tick.Stop()
	told := int64(0)
	for {
		select {
		case <-tick.C:
		case <-s.over:
			return
		case <-s.agent.ctx.Done():
			return
		}
		o := process.ReadMemory(root).Since(before)
		if o == nil || o.Kills == told {
			continue
		}
		told = o.Kills
		s.agent.log.Warn(
			"out of memory: processes of the session were killed", "killed", o.Kills, "limit", o.Limit, "peak", o.Peak,
		)
		s.set(func(st *control.Status) { st.OutOfMemory = o })
	}
}
