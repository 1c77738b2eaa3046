// Package agent is the program inside every session and job: it keeps the link to the service, starts the one app it is
// told to start, watches over it, and carries streams between the app and the service. In a container it is the first
// process.
//
// Promises: an app is started at most once; a service that restarts or is away changes nothing for the app; what the
// app printed and how it ended stay readable until the service ends the agent; nothing that runs in the container
// outlives the agent; no environment variable of the app is ever logged. On another host than the service's the agent
// does not depend on it: a job starts by itself, and what is to be known of its end lies in files. The package must
// build without cgo and stay small: no database, no container engine, no command line library.
package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/agent/process"
	"slipway/internal/agent/sshd"
	"slipway/internal/tunnel"
)

const (
	defaultGrace = 10 * time.Second
	closeTime    = 2 * time.Second // for answers under way when the agent ends
	relayWait    = 30 * time.Second
)

// Config is what an agent needs. Empty fields get the values of every workload (package control).
type Config struct {
	LinkSocket string
	APISocket  string
	BinDir     string
	WorkDir    string
	LogFile    string
	Progress   string // where a job's payload says how far it is
	OverlayDir string
	CodeDir    string
	JupyterDir string
	KernelDir  string   // for the sockets of an app that is a kernel
	TokensDir  string   // for the tokens and the proxy of the workload's user
	UsualProxy string   // where programs look for a proxy that no variable names
	UplinkFile string   // there on another host than the service's
	AppFile    string   // there for a job on another host: what to start without being told
	LastDir    string   // where an agent on another host leaves what is to be known of its end
	Env        []string // the agent's own environment, given on to the app
	KeepLog    int64    // most bytes kept of the output of an app without HTTP (a job): its beginning
	RecentLog  int64    // most bytes kept of the output of an HTTP app (a session): its end
	// The process is the agent's only: also the orphans of what it starts are taken, and its file mask is set.
	Alone  bool
	Logger *slog.Logger
}

func (c *Config) complete() {
	for _, f := range []struct {
		field *string
		value string
	}{
		{&c.LinkSocket, control.LinkSocket}, {&c.APISocket, control.APISocket}, {&c.BinDir, control.BinDir},
		{&c.WorkDir, control.WorkDir}, {&c.LogFile, control.LogFile}, {&c.Progress, control.ProgressFile},
		{&c.OverlayDir, control.OverlayDir}, {&c.CodeDir, control.CodeDir}, {&c.JupyterDir, control.JupyterDir},
		{&c.KernelDir, control.KernelDir},
		{&c.TokensDir, control.CredentialsDir}, {&c.UsualProxy, control.UsualProxy()},
		{&c.UplinkFile, control.UplinkFile}, {&c.AppFile, control.AppFile}, {&c.LastDir, control.LastDir},
	} {
		if *f.field == "" {
			*f.field = f.value
		}
	}
	if c.Env == nil {
		c.Env = os.Environ()
	}
	if c.KeepLog == 0 {
		c.KeepLog = 256 << 20
	}
	if c.RecentLog == 0 {
		c.RecentLog = 4 << 20
	}
}

// ExitError says that the app ended with a code other than zero. The agent's process ends with the same.
type ExitError struct{ Code int }

// Error names the code.
func (e *ExitError) Error() string { return fmt.Sprintf("the app ended with code %d", e.Code) }

// ExitCode returns the code.
func (e *ExitError) ExitCode() int { return e.Code }

// Run is the agent. It returns when ctx has ended or the service has ended it, with the app and all that it left ended.
func Run(ctx context.Context, cfg Config) error {
	cfg.complete()
	if err := os.MkdirAll(cfg.WorkDir, 0o700); err != nil {
		return fmt.Errorf("make the work directory: %w", err)
	}
	api, err := listenAPI(cfg.APISocket)
	if err != nil {
		return err
	}
	if cfg.Alone {
		syscall.Umask(process.UserMask)
	}
	a := &agent{
		cfg: cfg, log: cfg.Logger, api: api, doors: newStreams(),
		reaper: process.NewReaper(os.Getpid() == 1 || cfg.Alone && process.BecomeSubreaper()),
		ending: make(chan struct{}), finished: make(chan struct{}),
	}
	a.app, a.code, a.rounds = newSupervisor(a), newCode(a), &rounds{agent: a}
	a.ssh = newSSH(a)
	a.remote = newRemote(cfg)
	a.credentials = newCredentials(cfg)
	alone := process.Alone("/proc", os.Getpid(), os.Getppid())
	a.lookout = newLookout(
		a.app.server, a.ssh.Activity, process.NewCPUMeter("/proc", os.Getpid(), alone).Seconds, a.log,
	)
	a.lookout.memory = func() int64 { return process.MemoryInUse(cgroupRoot, "/proc", os.Getpid(), alone) }
	a.lookout.kernel = a.app.kernelNow
	a.lookout.editors, a.lookout.printed = a.code.editors, a.code.printed
	a.uplink = tunnel.NewUplink(tunnel.UplinkConfig{Dial: wayTo(cfg), Changed: a.remote.changed, Logger: cfg.Logger, Doors: map[tunnel.Door]func(context.Context, net.Conn){
		tunnel.DoorControl: a.doors.put,
		tunnel.DoorApp:     a.toApp,
		tunnel.DoorCode:    a.code.doors.put,
		tunnel.DoorKernel:  a.toKernel,
		tunnel.DoorSSH:     a.toSSH,
	}})
	return a.run(ctx)
}

type agent struct {
	cfg    Config
	log    *slog.Logger
	api    net.Listener
	doors  *streams // of the control door
	uplink *tunnel.Uplink
	app    *supervisor
	code   *code
	ssh    *sshd.Server
	reaper *process.Reaper
	remote *remoteState

	lookout     *lookout
	rounds      *rounds
	credentials *credentials

	once     sync.Once
	ending   chan struct{}   // closed when the service asks for the end
	finished chan struct{}   // closed when the app has ended for good
	ctx      context.Context // of what runs beside the app; ends after it
	work     sync.WaitGroup
}

func (a *agent) run(outer context.Context) error {
	ctx, cancel := context.WithCancel(context.WithoutCancel(outer))
	defer cancel()
	a.ctx = ctx
	server := &http.Server{
		Handler: a.routes(), ErrorLog: slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
		ReadHeaderTimeout: time.Minute,
	}
	a.work.Go(func() { a.reaper.Run(ctx) })
	a.work.Go(func() { _ = a.uplink.Run(ctx) })
	a.work.Go(func() { a.relay(ctx, a.api, tunnel.DoorAPI) })
	a.work.Go(func() { _ = server.Serve(a.doors) })
	a.work.Go(func() { a.code.serve(ctx) })
	a.work.Go(func() { a.code.retire(ctx) })
	a.work.Go(func() { a.code.report(ctx) })
	a.work.Go(func() { a.endAlone(ctx) })

	err := a.launchAlone()
	if err == nil {
		select {
		case <-outer.Done():
		case <-a.ending:
		}
	}
	a.ssh.Hangup()
	code := a.app.end()
	close(a.finished)
	a.code.end()
	brief, stop := context.WithTimeout(ctx, closeTime)
	defer stop()
	if err := server.Shutdown(brief); err != nil {
		_ = server.Close()
	}
	a.reaper.KillAll(closeTime)
	a.ssh.Close()
	cancel()
	a.work.Wait()
	_ = os.Remove(a.cfg.APISocket)
	a.credentials.end()
	a.leave(outer)
	if code != 0 {
		err = &ExitError{Code: code}
	}
	return err
}

func (a *agent) end() { a.once.Do(func() { close(a.ending) }) }

// listenAPI makes the socket by which programs of the workload reach the service.
func listenAPI(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove an old socket: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen for the programs of the workload: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("listen for the programs of the workload: %w", err), l.Close())
	}
	return l, nil
}
