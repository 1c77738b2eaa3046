package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/agent/gate"
	"slipway/internal/errs"
	"slipway/internal/tunnel"
)

const (
	codeProgram = "code-server"
	codeWait    = time.Minute      // for VS Code's server to come up beside another app
	codeUnused  = 30 * time.Minute // after that it is ended there
	codeGrace   = 5 * time.Second
	codeHeaders = 64 << 10 // bytes
)

// code is VS Code in a session: the app itself, or a program beside it that is started when somebody asks for it. The gate stands before
// it in both cases.
type code struct {
	agent *agent
	doors *streams // of its visitors
	dir   string

	mu   sync.Mutex
	gate *gate.Gate // nil: nobody can ask for it
	own  bool       // it is the app
	app  control.App
	env  []string
	run  *beside // the latest one; nil: none was started
	used time.Time
}

// beside is a code-server that is not the app.
type beside struct {
	pid  int
	up   chan struct{} // closed when it listens
	over chan struct{} // closed when it has ended
}

func newCode(a *agent) *code { return &code{agent: a, doors: newStreams(), dir: a.cfg.CodeDir} }

// prepare makes the gate for an HTTP app that is started with env, and gives the app's arguments. Without a Hub there is no VS Code
// beside another app.
func (c *code) prepare(app control.App, env []string) ([]string, error) {
	cfg := gate.Config{
		Env: func(name string) string { return variable(env, name) }, Title: "VS Code", Mark: control.CodeState, Logger: c.agent.log,
		Hub: func(ctx context.Context) (net.Conn, error) { return c.agent.uplink.Open(ctx, tunnel.DoorHub) }, App: c.dial,
	}
	if !app.Code {
		cfg.Below = control.CodePath
	}
	g, err := gate.New(cfg)
	if err != nil && app.Code {
		return nil, err
	}
	argv := app.Argv
	if app.Code {
		if err := c.makeDirs(variable(env, "HOME")); err != nil {
			return nil, err
		}
		argv = c.argv(app.Argv...)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gate, c.own, c.app, c.env = g, app.Code, app, env
	return argv, nil
}

// argv is how code-server is started: nobody but this user reaches its socket, and who may come in is the gate's matter.
func (c *code) argv(argv ...string) []string {
	flags := []string{"--socket", c.socket(), "--socket-mode", "600", "--auth", "none", "--user-data-dir", filepath.Join(c.dir, "data"),
		"--disable-telemetry", "--disable-update-check", "--disable-proxy"}
	return append(append([]string{argv[0]}, flags...), argv[1:]...)
}

func (c *code) socket() string { return filepath.Join(c.dir, "code.sock") }

// makeDirs makes the directory of VS Code's files, which is no other user's on a host that many share. What it keeps for its user (settings,
// keys, snippets) lies in her home, all else is of this session.
func (c *code) makeDirs(home string) error {
	if err := os.Remove(c.socket()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	data := filepath.Join(c.dir, "data")
	if err := os.MkdirAll(data, 0o700); err != nil {
		return fmt.Errorf("make VS Code's directory: %w", err)
	}
	if err := os.Chmod(c.dir, 0o700); err != nil {
		return fmt.Errorf("make VS Code's directory: %w", err)
	}
	kept := filepath.Join(home, ".local/share/code-server/User")
	if home == "" || os.MkdirAll(kept, 0o700) != nil {
		return nil // a home that cannot be written to keeps no settings
	}
	if err := os.Symlink(kept, filepath.Join(data, "User")); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("make VS Code's directory: %w", err)
	}
	return nil
}

// question is put to code-server to learn whether it is up: it listens, and says that there is no such page, some time before it has its
// pages.
func (c *code) question() question { return question{"http://code/", 400, unixTransport(c.socket())} }

// isApp reports whether the app is code-server.
func (c *code) isApp() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.own
}

// ServeHTTP answers the visitors.
func (c *code) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	g := c.gate
	c.mu.Unlock()
	if g == nil {
		http.Error(w, "There is no VS Code here: the session was not started by a JupyterHub.", http.StatusNotFound)
		return
	}
	g.ServeHTTP(w, r)
}

// serve answers them until ctx ends.
func (c *code) serve(ctx context.Context) {
	server := &http.Server{
		Handler: c, ErrorLog: slog.NewLogLogger(c.agent.log.Handler(), slog.LevelDebug), ReadHeaderTimeout: time.Minute, MaxHeaderBytes: codeHeaders,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	_ = server.Serve(c.doors)
}

// dial opens a connection to code-server, and starts it where it is not the app.
func (c *code) dial(ctx context.Context) (net.Conn, error) {
	if !c.isApp() {
		if err := c.await(ctx); err != nil {
			return nil, err
		}
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", c.socket())
	if err == nil || ctx.Err() != nil {
		return conn, err
	}
	if st, _ := c.agent.app.now(); c.isApp() && st.State == control.Exited {
		return nil, errs.New(errs.Unavailable, "VS Code has ended, and the session ends with it").With("start it again on the Hub's home page: what you changed is kept")
	}
	return nil, errs.New(errs.Unavailable, "VS Code does not answer").With("try again in a minute")
}

// await returns when a code-server beside the app listens.
func (c *code) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, codeWait)
	defer cancel()
	run, err := c.begin()
	if err != nil {
		return err
	}
	select {
	case <-run.up:
		return nil
	case <-run.over:
		return errs.New(errs.Unavailable, "VS Code ended when it was started").With("the session's log says why, see `slipway sessions`")
	case <-ctx.Done():
		return errs.New(errs.Unavailable, "VS Code has not come up yet").With("try again in a minute")
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
		return nil, errs.New(errs.Unavailable, "the session is ending").With("start it again on the Hub's home page: what you changed is kept")
	}
	home := variable(c.env, "HOME")
	program, err := find(codeProgram, "/", variable(c.env, "PATH"))
	if err != nil {
		return nil, errs.New(errs.Missing, "the image of this session has no VS Code: there is no program %s in it", codeProgram).
			With("start a session from an image that has it, or ask its maker to add it")
	}
	if err := c.makeDirs(home); err != nil {
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
func (c *code) follow(run *beside, done <-chan ended, pipe *os.File, out io.Writer) {
	var all sync.WaitGroup
	all.Go(func() { drain(out, pipe) })
	all.Go(func() {
		if c.question().answered(c.agent.ctx, run.over) {
			close(run.up)
		}
	})
	e := <-done
	code, reason := howEnded(e.status)
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

// unused gives what runs beside the app and has had no visitor for long; nil: there is none.
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

// onlyItself reports whether nothing runs below a process but its own program: no terminal and no kernel, in which somebody may have left
// work.
func onlyItself(proc string, pid int) bool {
	own, err := os.Readlink(filepath.Join(proc, strconv.Itoa(pid), "exe"))
	if err != nil {
		return false
	}
	children := map[int][]int{}
	for _, p := range processes(proc) {
		children[p.parent] = append(children[p.parent], p.pid)
	}
	for next := []int{pid}; len(next) > 0; next = next[1:] {
		if exe, err := os.Readlink(filepath.Join(proc, strconv.Itoa(next[0]), "exe")); err == nil && exe != own {
			return false
		}
		next = append(next, children[next[0]]...)
	}
	return true
}

// editors tells how much goes on in VS Code; asked: it is the app and can be asked.
func (c *code) editors() (t gate.Traffic, asked bool) {
	c.mu.Lock()
	g, own := c.gate, c.own
	c.mu.Unlock()
	if g == nil {
		return t, false
	}
	return g.Traffic(), own
}
