package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"slipway/internal/agent/authproxy"
	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/internal/tunnel"
)

const codeHeaders = 64 << 10 // bytes

// code is VS Code in a session: the app itself, or a program beside it that is started when somebody asks for it. The
// gate stands before it in both cases.
type code struct {
	agent *agent
	doors *streams // of its visitors
	dir   string

	mu   sync.Mutex
	gate *authproxy.Proxy // nil: nobody can ask for it
	own  bool             // it is the app
	app  control.App
	env  []string
	run  *beside // the latest one; nil: none was started
	used time.Time
}

func newCode(a *agent) *code { return &code{agent: a, doors: newStreams(), dir: a.cfg.CodeDir} }

// prepare makes the gate for an HTTP app that is started with env. It alone has the Hub's tokens: code-server gets
// none. Without a Hub there is no VS Code beside another app.
func (c *code) prepare(app control.App, env []string) error {
	cfg := authproxy.Config{
		Env: func(name string) string { return variable(env, name) }, Title: "VS Code", Mark: control.CodeState,
		Logger: c.agent.log,
		Hub:    func(ctx context.Context) (net.Conn, error) { return c.agent.uplink.Open(ctx, tunnel.DoorHub) },
		App:    c.dial,
	}
	if !app.Code {
		cfg.Below = control.CodePath
	}
	g, err := authproxy.New(cfg)
	if err != nil && app.Code {
		return err
	}
	if app.Code {
		if err := c.makeDirs(keepsIn(env)); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gate, c.own, c.app, c.env = g, app.Code, app, c.environ(env)
	return nil
}

// environ is code-server's environment, of what other apps have. The variable is read by that of our image, for what it
// keeps beside its user's data.
func (c *code) environ(env []string) []string {
	return append(withoutApps(env), "SLIPWAY_CODE_DATA="+c.data())
}

func (c *code) data() string { return filepath.Join(c.dir, "data") }

// argv is how code-server is started: nobody but this user reaches its socket, and who may come in is the gate's
// matter.
func (c *code) argv(argv ...string) []string {
	flags := []string{"--socket", c.socket(), "--socket-mode", "600", "--auth", "none", "--user-data-dir", c.data(),
		"--disable-telemetry", "--disable-update-check", "--disable-proxy"}
	return append(append([]string{argv[0]}, flags...), argv[1:]...)
}

func (c *code) socket() string { return filepath.Join(c.dir, "code.sock") }

// makeDirs makes the directory of VS Code's files, which is no other user's on a host that many share. What it keeps
// for its user (settings, keys, snippets) lies in her home, all else is of this session.
func (c *code) makeDirs(home string) error {
	if err := os.Remove(c.socket()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	data := c.data()
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

// question is put to code-server to learn whether it is up: it listens, and says that there is no such page, some time
// before it has its pages.
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
		Handler: c, ErrorLog: slog.NewLogLogger(c.agent.log.Handler(), slog.LevelDebug),
		ReadHeaderTimeout: time.Minute, MaxHeaderBytes: codeHeaders,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	_ = server.Serve(c.doors)
}

// dial opens a connection to code-server, and starts it where it is not the app.
func (c *code) dial(ctx context.Context) (net.Conn, error) {
	if !c.isApp() {
		return c.dialBeside(ctx)
	}
	conn, err := c.connect(ctx)
	if err == nil || ctx.Err() != nil {
		return conn, err
	}
	if st, _ := c.agent.app.now(); st.State == control.Exited {
		return nil, errs.New(errs.Unavailable, "VS Code has ended, and the session ends with it").
			With("start it again on the Hub's home page: what you changed is kept")
	}
	return nil, errSilent
}

var errSilent = errs.New(errs.Unavailable, "VS Code does not answer").With("try again in a minute")

func (c *code) connect(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "unix", c.socket())
}

// reportEvery is how often the Hub is told of activity, as jupyterhub-singleuser does.
const reportEvery = 5 * time.Minute

// report tells the Hub of what goes on where code-server is the app, until ctx ends.
func (c *code) report(ctx context.Context) {
	every := time.NewTicker(reportEvery)
	defer every.Stop()
	var told time.Time
	for {
		select {
		case <-every.C:
		case <-ctx.Done():
			return
		}
		c.mu.Lock()
		g, own := c.gate, c.own
		c.mu.Unlock()
		if g == nil || !own {
			continue
		}
		a := c.agent.lookout.activity(ctx)
		last := time.Now().Add(-time.Duration(a.Quiet * float64(time.Second)))
		if a.Quiet < 0 || last.Sub(told) < time.Second {
			continue
		}
		if err := g.Report(ctx, last); err != nil {
			c.agent.log.Debug("the Hub is not told of activity", "error", err)
			continue
		}
		told = last
	}
}

// editors tells how much goes on in VS Code; asked: it is the app and can be asked.
func (c *code) editors() (t authproxy.Traffic, asked bool) {
	c.mu.Lock()
	g, own := c.gate, c.own
	c.mu.Unlock()
	if g == nil {
		return t, false
	}
	return g.Traffic(), own
}

// printed tells when a terminal in VS Code last showed something; zero: never.
func (c *code) printed() time.Time {
	c.mu.Lock()
	pid, own := 0, c.own
	if c.run != nil && !closed(c.run.over) {
		pid = c.run.pid
	}
	c.mu.Unlock()
	if own {
		pid = c.agent.app.process()
	}
	if pid == 0 {
		return time.Time{}
	}
	return printed("/proc", terminalDir, pid)
}
