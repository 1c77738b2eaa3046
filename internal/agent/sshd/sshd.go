// Package sshd is the end of ssh connections inside a session: shells, programs, file transfers and forwards, as
// OpenSSH's server has them. Who comes has been proved by the gateway; everything here runs as the session's user, who
// could do the same in a terminal.
//
// Promises: nothing is written to a program's output that it did not write; a connection that ends takes its terminals,
// listeners and sockets with it, and leaves programs without a terminal running; all that was started ends with the
// server. The package must not know how a session is started, nor who may come.
package sshd

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"slipway/internal/sshtunnel"
	"slipway/internal/taskgroup"
)

// The reasons for which a channel is refused, of RFC 4254 section 5.1.
const (
	prohibited    = 1
	connectFailed = 2
	unknownKind   = 3
	shortage      = 4
)

// What one connection may have. Editors open hundreds of channels and give up without a word when one is refused.
const (
	maxChannels = 512
	maxForwards = 128 // listeners
)

// Wait waits until a process has ended, or ctx has.
type Wait func(ctx context.Context) (syscall.WaitStatus, error)

// Config is what a Server needs.
type Config struct {
	// Start starts a process of the session as attr says. What is left of its group when it ends goes on.
	Start func(program string, argv []string, attr *syscall.ProcAttr) (pid int, wait Wait, err error)
	// Environment is what the session's programs have, without what is the app's alone.
	Environment func() []string
	Logger      *slog.Logger
}

// Server serves all connections of a session.
type Server struct {
	cfg   Config
	link  *sshtunnel.Server
	pulse *pulse
	tasks *taskgroup.Group // wait for processes; ends with the server

	transfers sync.RWMutex // locked for writing while they rest

	mu      sync.Mutex
	guests  map[*sshtunnel.Peer]*guest
	running map[int]bool // the numbers of processes
	ending  bool
}

// New makes a Server. Its streams are served by Link; Close must be called.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, pulse: newPulse(), guests: map[*sshtunnel.Peer]*guest{}, running: map[int]bool{}}
	s.tasks = taskgroup.New(context.Background())
	s.link = sshtunnel.NewServer(s, cfg.Logger)
	hearHangups()
	return s
}

// hearHangups has programs end when their terminal is hung up, also where this one was started with that signal
// ignored, as by nohup: what is ignored, programs inherit, and no shell can trap it. What is heard, they do not.
func hearHangups() {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}

// Link serves the streams of the ssh door.
func (s *Server) Link() *sshtunnel.Server { return s.link }

// Channel serves a channel that the client asks for.
func (s *Server) Channel(ctx context.Context, p *sshtunnel.Peer, i *sshtunnel.Incoming) {
	g := s.guest(p)
	if !g.enter() {
		_ = i.Refuse(shortage, "too many channels of one connection are open")
		return
	}
	defer g.leave()
	switch i.Kind {
	case "session":
		s.session(ctx, g, i)
	case "direct-tcpip", "direct-streamlocal@openssh.com":
		s.dial(ctx, p.Deny(), i)
	default:
		_ = i.Refuse(unknownKind, "no channels of this kind are known")
	}
}

// Request answers a request of a whole connection.
func (s *Server) Request(ctx context.Context, p *sshtunnel.Peer, kind string, payload []byte) (bool, []byte) {
	g := s.guest(p)
	switch kind {
	case "tcpip-forward":
		return g.listenTCP(ctx, payload)
	case "streamlocal-forward@openssh.com":
		return g.listenUnix(ctx, payload), nil
	case "cancel-tcpip-forward", "cancel-streamlocal-forward@openssh.com":
		return g.cancel(kind, payload), nil
	case "no-more-sessions@openssh.com":
		g.noMore.Store(true)
		return true, nil
	}
	return false, nil
}

// Left forgets a connection.
func (s *Server) Left(p *sshtunnel.Peer) {
	s.mu.Lock()
	g := s.guests[p]
	delete(s.guests, p)
	s.mu.Unlock()
	if g != nil {
		g.close()
	}
}

func (s *Server) guest(p *sshtunnel.Peer) *guest {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.guests[p]
	if g == nil {
		g = newGuest(s, p)
		s.guests[p] = g
	}
	return g
}

var errEnding = errors.New("the session is ending")

// start starts a process and has it waited for.
func (s *Server) start(program string, argv []string, attr *syscall.ProcAttr) (*process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending {
		return nil, errEnding
	}
	pid, wait, err := s.cfg.Start(program, argv, attr)
	if err != nil {
		return nil, err
	}
	p := &process{pid: pid, ended: make(chan struct{})}
	s.running[pid] = true
	s.tasks.Go(func(ctx context.Context) {
		status, err := wait(ctx)
		s.mu.Lock()
		delete(s.running, pid)
		s.mu.Unlock()
		if err == nil {
			p.status = status
			close(p.ended)
		}
	})
	return p, nil
}

// Hangup asks all programs to end, as when their terminals are closed, and lets no other start.
func (s *Server) Hangup() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending = true
	for pid := range s.running {
		_ = syscall.Kill(-pid, syscall.SIGHUP)
		_ = syscall.Kill(-pid, syscall.SIGCONT)
	}
}

// Close ends all programs that still run. The streams are ended by who has given them.
func (s *Server) Close() {
	s.mu.Lock()
	s.ending = true
	for pid := range s.running {
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
	s.mu.Unlock()
	s.tasks.End()
	s.tasks.Wait()
}

// process is one that was started.
type process struct {
	pid    int
	ended  chan struct{}
	status syscall.WaitStatus // once it has ended
}
