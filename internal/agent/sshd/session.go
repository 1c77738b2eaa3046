package sshd

import (
	"context"
	"io"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/crypto/ssh"

	"slipway/internal/sshtunnel"
)

// What a client may send of an environment.
const (
	maxVariables   = 128
	maxEnvironment = 256 << 10
)

// session is a channel in which one program runs.
type session struct {
	server  *Server
	guest   *guest
	channel *sshtunnel.Channel

	around   surroundings
	env      []string // the client's
	envSize  int
	terminal *terminal // nil: none was asked for
	x11      *display
	agent    string // the socket of the client's ssh agent; empty: not asked for
	term     string

	started  bool
	process  *process    // nil: the file server
	ours     []io.Closer // this side's ends of the program's pipes
	pumps    sync.WaitGroup
	output   sync.WaitGroup // those of the pumps that send what the program says
	finished chan struct{}  // closed when the program has ended and all that it said was sent
}

// session serves a channel of that kind.
func (s *Server) session(ctx context.Context, g *guest, i *sshtunnel.Incoming) {
	if g.noMore.Load() {
		_ = i.Refuse(prohibited, "the client has said that it wants no more sessions")
		return
	}
	ch, err := i.Accept(ctx)
	if err != nil {
		return
	}
	se := &session{
		server: s, guest: g, channel: ch, around: s.surroundings(g.peer.Login), finished: make(chan struct{}),
	}
	defer se.pumps.Wait()
	defer se.hangup()
	defer ch.Close()
	for {
		select {
		case r, ok := <-ch.Requests():
			if !ok {
				return
			}
			se.answer(ctx, r)
		case <-se.finished:
			return
		}
	}
}

// hangup closes what the program has of the channel: its terminal is hung up, and other programs lose their pipes.
func (s *session) hangup() {
	if s.terminal != nil {
		_ = s.terminal.Close()
	}
	for _, c := range s.ours {
		_ = c.Close()
	}
	if s.x11 != nil {
		s.x11.close()
	}
}

// answer does what is asked. The answer goes before the first byte of output.
func (s *session) answer(ctx context.Context, r *sshtunnel.Request) {
	run, ok := s.request(ctx, r.Kind, r.Payload)
	_ = r.Reply(ok)
	if run != nil {
		s.pumps.Go(run)
	}
}

// request does what is asked and says whether it could. What it returns is to be run then.
func (s *session) request(ctx context.Context, kind string, payload []byte) (run func(), ok bool) {
	switch kind {
	case "shell":
		return s.run("", nil)
	case "exec":
		command, err := parseWord(payload)
		return s.run(command, err)
	case "subsystem":
		name, err := parseWord(payload)
		if err != nil || name != "sftp" || s.started {
			return nil, false
		}
		s.started = true
		return s.files, true
	case "env":
		return nil, s.setEnv(payload)
	case "pty-req":
		return nil, s.openTerminal(payload)
	case "window-change":
		z, err := parseSize(payload)
		return nil, err == nil && s.terminal != nil && s.terminal.resize(z) == nil
	case "signal":
		name, err := parseWord(payload)
		return nil, err == nil && s.signal(name)
	case "auth-agent-req@openssh.com":
		return nil, !s.started && s.forwardAgent(ctx)
	case "x11-req":
		return nil, !s.started && s.forwardX11(ctx, payload)
	}
	return nil, false
}

func (s *session) setEnv(payload []byte) bool {
	kv, err := parseEnv(payload)
	if err != nil || s.started || len(s.env) >= maxVariables || s.envSize+len(kv) > maxEnvironment {
		return false
	}
	s.env, s.envSize = append(s.env, kv), s.envSize+len(kv)
	return true
}

func (s *session) openTerminal(payload []byte) bool {
	p, err := parsePTY(payload)
	if err != nil || s.started || s.terminal != nil {
		return false
	}
	t, err := newTerminal()
	if err != nil {
		s.server.cfg.Logger.Warn("no terminal for ssh", "error", err)
		return false
	}
	s.terminal, s.term = t, p.term
	_ = t.resize(p.size) // a terminal of another size is better than none
	_ = t.set(p.modes)
	return true
}

// run starts a command, or a login shell where there is none.
func (s *session) run(command string, bad error) (func(), bool) {
	if bad != nil || s.started {
		return nil, false
	}
	s.started = true
	base := path.Base(s.around.shell)
	argv := []string{"-" + base}
	if command != "" {
		argv = []string{base, "-c", command}
	}
	attr := &syscall.ProcAttr{Dir: s.directory(), Env: s.environment(), Sys: &syscall.SysProcAttr{Setsid: true}}
	start := s.startPiped
	if s.terminal != nil {
		start = s.startOnTerminal
	}
	p, pump, err := start(argv, attr)
	if err != nil {
		s.server.cfg.Logger.Warn("a program for ssh was not started", "error", err)
		return nil, false
	}
	s.process = p
	return func() {
		pump()
		s.finish()
	}, true
}

func (s *session) directory() string {
	if st, err := os.Stat(s.around.home); err == nil && st.IsDir() {
		return s.around.home
	}
	return "/"
}

// environment is that of the program.
func (s *session) environment() []string {
	env := append(variables{}, s.around.env...)
	env = append(env, s.env...)
	if s.terminal != nil {
		env = append(env, "SSH_TTY="+s.terminal.name)
		if s.term != "" {
			env = append(env, "TERM="+s.term)
		}
	}
	if s.agent != "" {
		env = append(env, "SSH_AUTH_SOCK="+s.agent)
	}
	if s.x11 != nil {
		env = append(env, "DISPLAY="+s.x11.name, "XAUTHORITY="+s.x11.authority)
	}
	return once(env)
}

// once leaves of each name the last value.
func once(env variables) []string {
	at := map[string]int{}
	var list []string
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		if i, ok := at[name]; ok {
			list[i] = kv
			continue
		}
		at[name] = len(list)
		list = append(list, kv)
	}
	return list
}

// startOnTerminal starts the program as the leader of the terminal's session.
func (s *session) startOnTerminal(argv []string, attr *syscall.ProcAttr) (*process, func(), error) {
	tty, err := s.terminal.program()
	if err != nil {
		return nil, nil, err
	}
	defer tty.Close()
	attr.Files = []uintptr{tty.Fd(), tty.Fd(), tty.Fd()}
	attr.Sys.Setctty = true
	p, err := s.server.start(s.around.shell, argv, attr)
	return p, func() {
		s.send(s.channel, s.terminal)
		// The client's end of input hangs nobody up.
		s.pumps.Go(func() { s.receive(&input{File: s.terminal.master, moved: s.moved}, nil) })
	}, err
}

// startPiped starts the program with a pipe for each of its three files.
func (s *session) startPiped(argv []string, attr *syscall.ProcAttr) (*process, func(), error) {
	var theirs, ours [3]*os.File
	defer func() {
		for _, f := range theirs {
			if f != nil {
				_ = f.Close()
			}
		}
	}()
	for n := range theirs {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, nil, err
		}
		theirs[n], ours[n] = w, r
		if n == 0 {
			theirs[n], ours[n] = r, w
		}
		s.ours = append(s.ours, ours[n])
		attr.Files = append(attr.Files, theirs[n].Fd())
	}
	p, err := s.server.start(s.around.shell, argv, attr)
	return p, func() {
		s.send(s.channel, ours[1])
		s.send(s.channel.Stderr(), ours[2])
		s.pumps.Go(func() { s.receive(&input{File: ours[0], moved: s.moved}, ours[0]) })
	}, err
}

// send has what the program says sent. When it cannot be, the program learns that nobody reads it.
func (s *session) send(to io.Writer, from io.ReadCloser) {
	s.output.Add(1)
	s.pumps.Go(func() {
		defer s.output.Done()
		if _, err := io.Copy(to, felt{Reader: from, moved: s.moved}); err != nil {
			_ = from.Close()
		}
	})
}

// receive gives the program what the client types, and at its end closes end. What the program does not take any more
// is thrown away, so that requests behind it arrive.
func (s *session) receive(to *input, end io.Closer) {
	err := s.channel.Feed(to)
	if end != nil {
		_ = end.Close()
	}
	if err != nil && s.channelOpen() {
		_, _ = s.channel.Send(context.Background(), "eow@openssh.com", false, nil)
		_, _ = io.Copy(io.Discard, s.channel)
	}
}

func (s *session) channelOpen() bool {
	select {
	case <-s.channel.Done():
		return false
	default:
		return true
	}
}

func (s *session) moved(int) { s.server.pulse.beat() }

// finish waits for the program's end, tells it, and waits until all that the program and those it has left behind said
// was sent.
func (s *session) finish() {
	select {
	case <-s.process.ended:
	case <-s.channel.Done():
		return
	case <-s.server.tasks.Done():
		return
	}
	kind, payload := exit(s.process.status)
	_, _ = s.channel.Send(context.Background(), kind, false, payload)
	if s.terminal != nil {
		s.terminal.ended()
	}
	s.output.Wait()
	_ = s.channel.CloseWrite()
	close(s.finished)
}

// exit says how a program ended.
func exit(status syscall.WaitStatus) (kind string, payload []byte) {
	if status.Signaled() {
		return "exit-signal", ssh.Marshal(struct {
			Signal            string
			Core              bool
			Message, Language string
		}{signalName(status.Signal()), status.CoreDump(), "", ""})
	}
	return "exit-status", ssh.Marshal(struct{ Code uint32 }{uint32(status.ExitStatus())})
}
