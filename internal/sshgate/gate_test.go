package sshgate

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"slipway/hubapi"
	"slipway/internal/errs"
	"slipway/internal/sshauth"
	"slipway/spawner"
)

// run runs a command and gives what it has written and how it ended.
func run(t *testing.T, c *ssh.Client, command, input string) (out, stderr string, err error) {
	t.Helper()
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var stdout, errout bytes.Buffer
	s.Stdin, s.Stdout, s.Stderr = strings.NewReader(input), &stdout, &errout
	err = s.Run(command)
	return stdout.String(), errout.String(), err
}

// TestSession: what comes of a running session is its own, and nothing else.
func TestSession(t *testing.T) {
	h := open(t, nil)
	c := h.alice("alice")
	out, stderr, err := run(t, c, "cat", "hello")
	var status *ssh.ExitError
	if out != "hello" || stderr != "done" || !errors.As(err, &status) || status.ExitStatus() != 3 {
		t.Errorf("%q, %q, %v", out, stderr, err)
	}
	if out, _, _ := run(t, c, "big", ""); len(out) != 1<<20 {
		t.Errorf("%d bytes", len(out))
	}
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := s.SendRequest("nonsense@example.org", true, nil); ok || err != nil {
		t.Errorf("an unknown request: %v, %v", ok, err)
	}
	if _, _, err := c.OpenChannel("nonsense@example.org", nil); err == nil || !strings.Contains(err.Error(), "no nonsense@example.org here") {
		t.Errorf("an unknown channel: %v", err)
	}
	if ok, answer, err := c.SendRequest("echo@example.org", true, []byte("x")); !ok || string(answer) != "x" || err != nil {
		t.Errorf("an unknown global request: %v, %q, %v", ok, answer, err)
	}
	if ok, _, err := c.SendRequest("keepalive@openssh.com", true, nil); !ok || err != nil {
		t.Errorf("keepalive: %v, %v", ok, err)
	}
	_ = c.Close()
	eventually(t, "the logout is logged", func() bool { return strings.Contains(h.log.String(), "ssh logout") })
	for _, want := range []string{`msg="ssh login"`, "user=alice", "hub=main", "session=s-1", "key=SHA256:", "address=127.0.0.1:", `msg="ssh channel"`, "to_session=5"} {
		if !strings.Contains(h.log.String(), want) {
			t.Errorf("the log lacks %s", want)
		}
	}
	if strings.Contains(h.log.String(), "hello") {
		t.Error("the log has a payload")
	}
	if !h.engine.seen(func(e *fakeEngine) bool { return len(e.visits) == 1 && e.visits[0] == "s-1" }) {
		t.Error("the visit was not noted")
	}
	if s := h.gate.Stats(); s.Logins["ok"] != 1 || s.Channels[kindSession] != 3 || s.Read == 0 {
		t.Errorf("%+v", s)
	}
}

// TestLeftBehind: what a client sends before it closes the channel arrives, as the last words of a forwarded connection.
func TestLeftBehind(t *testing.T) {
	h := open(t, nil)
	c := h.alice("alice")
	h.line(`"ssh login"`) // who leaves before has her start given up
	ch, reqs, err := c.OpenChannel(kindSession, nil)
	if err != nil {
		t.Fatal(err)
	}
	go ssh.DiscardRequests(reqs)
	if ok, err := ch.SendRequest("exec", true, ssh.Marshal(struct{ C string }{"slow"})); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if _, err := ch.Write(make([]byte, 300_000)); err != nil {
		t.Fatal(err)
	}
	_ = ch.CloseWrite()
	_ = ch.Close()
	eventually(t, "all has arrived", func() bool { return h.agent.has("300000 bytes, <nil>") })
}

// TestForeign: a key opens no session of another user, whatever name is given with it.
func TestForeign(t *testing.T) {
	h := open(t, nil)
	for _, login := range []string{"alice", "alice+x", "alice+", "bob2", "", "+", "bo", "alice+bob", "bob\x00"} {
		if c, err := h.client(login, h.keeper.bob); err == nil {
			t.Errorf("bob's key opens %q", login)
			_ = c.Close()
		}
	}
	if _, err := h.client("alice", newSigner(t)); err == nil {
		t.Error("an unknown key opens a session")
	}
	if h.engine.seen(func(e *fakeEngine) bool { return len(e.visits)+len(e.started) > 0 }) {
		t.Error("a session was reached or started")
	}
}

// TestManyKeys: agents offer all that they have.
func TestManyKeys(t *testing.T) {
	h := open(t, nil)
	for n, lets := range map[int]bool{mostTries - 1: true, mostTries: false} {
		var keys []ssh.Signer
		for range n {
			keys = append(keys, newSigner(t))
		}
		cfg := h.clientConfig("alice", nil)
		cfg.Auth = []ssh.AuthMethod{ssh.PublicKeys(append(keys, h.keeper.alice)...)}
		c, err := ssh.Dial("tcp", h.address, cfg)
		if (err == nil) != lets {
			t.Errorf("behind %d others: %v", n, err)
		}
		if err == nil {
			_ = c.Close()
		}
	}
}

// banner collects what is said before a login.
func banner(cfg *ssh.ClientConfig) *strings.Builder {
	var said strings.Builder
	cfg.BannerCallback = func(m string) error {
		said.WriteString(m)
		return nil
	}
	return &said
}

// TestAdmission: who has proved herself is told why she may not come in.
func TestAdmission(t *testing.T) {
	from := func(groups []string, network string) []Network {
		return []Network{{Groups: groups, From: []netip.Prefix{netip.MustParsePrefix(network)}}}
	}
	for name, tt := range map[string]struct {
		change func(*Config)
		says   string
	}{
		"from anywhere":        {func(*Config) {}, ""},
		"from her group's":     {func(c *Config) { c.Networks = from([]string{"higgs"}, "127.0.0.0/8") }, ""},
		"from everybody's":     {func(c *Config) { c.Networks = from([]string{"*"}, "127.0.0.0/8") }, ""},
		"from another group's": {func(c *Config) { c.Networks = from([]string{"top"}, "127.0.0.0/8") }, "you may not come from 127.0.0.1"},
		"from another network": {func(c *Config) { c.Networks = from([]string{"*", "higgs"}, "192.0.2.0/24") }, "you may not come from 127.0.0.1"},
		"unknown at the Hub":   {func(c *Config) { c.Known = func(context.Context, Owner) (bool, error) { return false, nil } }, "does not know you"},
		"the Hub does not answer": {func(c *Config) {
			c.Known = func(context.Context, Owner) (bool, error) { return false, errs.New(errs.Unavailable, "down") }
		}, ""},
		"has too many": {func(c *Config) { c.AtOnce = 0 }, "0 connections open"},
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t, func(c *Config, _ *hall) { tt.change(c) })
			cfg := h.clientConfig("alice", h.keeper.alice)
			said := banner(cfg)
			c, err := ssh.Dial("tcp", h.address, cfg)
			if (err == nil) != (tt.says == "") || !strings.Contains(said.String(), tt.says) {
				t.Errorf("%v, %q", err, said)
			}
			if err == nil {
				_ = c.Close()
			}
		})
	}
}

// TestAtOnce: a user has no more than her connections, and gets back those that she closes.
func TestAtOnce(t *testing.T) {
	h := open(t, func(c *Config, _ *hall) { c.AtOnce = 2 })
	first := h.alice("alice")
	h.alice("alice")
	if _, err := h.client("alice", h.keeper.alice); err == nil {
		t.Error("one too many")
	}
	_ = first.Close()
	eventually(t, "there is room again", func() bool {
		c, err := h.client("alice", h.keeper.alice)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}

func TestKnown(t *testing.T) {
	asked, answer := 0, error(nil)
	k := newKnown(func(context.Context, Owner) (bool, error) { asked++; return answer == nil, answer })
	for range 3 {
		if !k.is(t.Context(), Owner{Hub: "main", User: "alice"}) {
			t.Error("unknown")
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
	if !newKnown(nil).is(t.Context(), Owner{}) {
		t.Error("nobody is asked, and she is unknown")
	}
}

// TestStart: progress goes to stderr, what waits goes on in its order, and stdout stays clean.
func TestStart(t *testing.T) {
	h := open(t, nil)
	going := make(chan struct{})
	h.engine.begin = func(_ context.Context, _ hubapi.ServerRequest, tell func(hubapi.Progress)) error {
		tell(hubapi.Progress{Message: "Waiting for room: number 3 in line"})
		<-going
		tell(hubapi.Progress{Message: "The container\x1b[2J starts"})
		return nil
	}
	c := h.alice("alice+gpu10")
	if ok, _, err := c.SendRequest("keepalive@openssh.com", true, nil); !ok || err != nil {
		t.Errorf("keepalive while it starts: %v, %v", ok, err)
	}
	listening := make(chan bool, 1)
	go func() {
		ok, _, _ := c.SendRequest("tcpip-forward", true, ssh.Marshal(struct {
			A string
			P uint32
		}{"localhost", 80}))
		listening <- ok
	}()
	type result struct{ out, stderr string }
	ended := make(chan result, 1)
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	var out, stderr lockedBuffer
	s.Stdin, s.Stdout, s.Stderr = strings.NewReader("hello"), &out, &stderr
	for i := range 40 { // more than x/crypto holds for itself
		if _, err := s.SendRequest("env", false, ssh.Marshal(struct{ N, V string }{"LC_X", string(rune('a' + i%26))})); err != nil {
			t.Fatal(err)
		}
	}
	go func() {
		_ = s.Run("cat")
		ended <- result{out.String(), stderr.String()}
	}()
	eventually(t, "she is told her place", func() bool { return strings.Contains(stderr.String(), "slipway: Waiting for room: number 3 in line\n") })
	if out.String() != "" {
		t.Errorf("stdout has %q", out.String())
	}
	close(going)
	r := <-ended
	if r.out != "hello" || !strings.HasSuffix(r.stderr, "done") || strings.Count(r.stderr, "number 3") != 1 || strings.Contains(r.stderr, "\x1b") {
		t.Errorf("%q, %q", r.out, r.stderr)
	}
	if !<-listening {
		t.Error("the request that waited was refused")
	}
	if !h.engine.seen(func(e *fakeEngine) bool {
		return len(e.started) == 1 && e.started[0].Options["profile"] == "gpu10" && len(e.stopped) == 0
	}) {
		t.Errorf("%+v", h.engine.started)
	}
}

// TestClearEnds: whatever keeps a user from her session, she reads it, and scripts see that it failed.
func TestClearEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		login   string
		session string
		begin   func(context.Context, hubapi.ServerRequest, func(hubapi.Progress)) error
		says    string
	}{
		"unknown profile": {"alice+gpu11", sshauth.AnySession, nil, "there is no profile of this name\nslipway: your sessions: the default one (running)\nslipway: profiles: small, gpu10\n"},
		"the start fails": {"alice+gpu10", sshauth.AnySession, func(context.Context, hubapi.ServerRequest, func(hubapi.Progress)) error {
			return errs.New(errs.Unavailable, "the start has failed: out of memory").With("ask for more")
		}, "slipway: the start has failed: out of memory: ask for more\n"},
		"no token": {"alice+gpu10", sshauth.AnySession, func(context.Context, hubapi.ServerRequest, func(hubapi.Progress)) error {
			return errs.New(errs.Missing, "the service has no token of its own at hub main and starts nothing there").With("start the server on the Hub's pages")
		}, "start the server on the Hub's pages"},
		"another session's certificate": {"alice", "gpu10", nil, `your certificate is for the session "gpu10" alone`},
		"nobody's business": {"alice+gpu10", sshauth.AnySession, func(context.Context, hubapi.ServerRequest, func(hubapi.Progress)) error {
			return errors.New("dial tcp 10.0.0.1: secret")
		}, "your administrator finds the reason"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := open(t, nil)
			h.keeper.session, h.engine.begin = tt.session, tt.begin
			c := h.alice(tt.login)
			out, stderr, err := run(t, c, "true", "")
			var status *ssh.ExitError
			if !errors.As(err, &status) || status.ExitStatus() != 255 || out != "" || !strings.Contains(stderr, tt.says) || strings.Contains(stderr, "secret") {
				t.Errorf("%q, %q, %v", out, stderr, err)
			}
			if _, err := c.Dial("tcp", "127.0.0.1:1"); err == nil {
				t.Error("a forward was opened")
			}
			if err := c.Wait(); err == nil {
				t.Error("the connection ended without an error")
			}
		})
	}
}

// TestLost: where the link or the session is gone, no end of data and no exit status come.
func TestLost(t *testing.T) {
	for name, tt := range map[string]struct {
		lose func(h *hall)
		says string
	}{
		"the link": {func(h *hall) { h.linkCut() }, "the connection to your session was lost"},
		"the session": {func(h *hall) {
			w := session("s-1", "", "small", spawner.Stopping, spawner.WantStopped)
			w.Outcome = &spawner.Outcome{Reason: "nothing went on in it for 2h0m0s"}
			h.engine.set(w)
		}, "your session has ended: nothing went on in it for 2h0m0s"},
		"the key": {func(h *hall) {
			h.keeper.revoke(func(p Pass) bool { return p.Owner.User == "alice" })
		}, "withdrawn"},
		"the service": {func(h *hall) { h.stop() }, "the service is being restarted; your session goes on"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := open(t, nil)
			c := h.alice("alice")
			forward, err := c.Dial("tcp", "127.0.0.1:8888")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := forward.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(forward, make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			terminal, err := c.NewSession()
			if err != nil {
				t.Fatal(err)
			}
			var stderr lockedBuffer
			terminal.Stderr = &stderr
			_ = terminal.RequestPty("xterm", 24, 80, nil)
			plain, _ := c.NewSession()
			var quiet lockedBuffer
			plain.Stderr = &quiet
			for _, s := range []*ssh.Session{terminal, plain} {
				if err := s.Start("hang"); err != nil {
					t.Fatal(err)
				}
			}
			begun := time.Now()
			tt.lose(h)
			err = terminal.Wait()
			var missing *ssh.ExitMissingError
			if !errors.As(err, &missing) {
				t.Errorf("the terminal ends with %v", err)
			}
			_ = c.Wait()
			if took := time.Since(begun); took > 5*time.Second {
				t.Errorf("it took %s", took)
			}
			if !strings.Contains(stderr.String(), tt.says) || quiet.String() != "" {
				t.Errorf("%q, and %q", stderr.String(), quiet.String())
			}
		})
	}
}

// TestForwards: what is denied is refused with words, and channels towards the client come only where it has asked for such.
func TestForwards(t *testing.T) {
	h := open(t, nil)
	c := h.alice("alice")
	for _, to := range []string{"169.254.169.254:80", "[::ffff:169.254.169.254]:80"} {
		if _, err := c.Dial("tcp", to); err == nil || !strings.Contains(err.Error(), "opens no forwards to 169.254.0.0/16") {
			t.Errorf("%s: %v", to, err)
		}
	}
	if _, _, err := c.OpenChannel(kindTCP, []byte("junk")); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("junk: %v", err)
	}
	if out, _, _ := run(t, c, "reach", ""); out != "the client has not asked for such channels" {
		t.Errorf("%q", out)
	}
	arrived := c.HandleChannelOpen(kindFromTCP)
	go func() {
		for nc := range arrived {
			if near, reqs, err := nc.Accept(); err == nil {
				go ssh.DiscardRequests(reqs)
				_ = near.Close()
			}
		}
	}()
	if ok, _, err := c.SendRequest("tcpip-forward", true, ssh.Marshal(struct {
		A string
		P uint32
	}{"localhost", 80})); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if out, _, _ := run(t, c, "reach", ""); out != "open" {
		t.Errorf("%q", out)
	}
	h.agent.mu.Lock()
	told := h.agent.peer.Deny // the session looks at what names become
	h.agent.mu.Unlock()
	if !slices.Equal(told, []string{"169.254.0.0/16"}) {
		t.Errorf("the session was told to deny %q", told)
	}
	if _, _, err := c.SendRequest("no-more-sessions@openssh.com", false, nil); err != nil {
		t.Fatal(err)
	}
	if ok, _, err := c.SendRequest("keepalive@openssh.com", true, nil); !ok || err != nil { // x/crypto does not tell what of both came first
		t.Fatal(ok, err)
	}
	if _, err := c.NewSession(); err == nil {
		t.Error("a session after the last")
	}
	if _, err := c.Dial("tcp", "127.0.0.1:1"); err != nil {
		t.Errorf("a forward after the last session: %v", err)
	}
}

// TestHostKeys: a client learns the other host keys, and has them proved.
func TestHostKeys(t *testing.T) {
	h := open(t, nil)
	raw, err := net.Dial("tcp", h.address)
	if err != nil {
		t.Fatal(err)
	}
	conn, chans, reqs, err := ssh.NewClientConn(raw, h.address, h.clientConfig("alice", h.keeper.alice))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() {
		for range chans {
			continue
		}
	}()
	announced := <-reqs
	go ssh.DiscardRequests(reqs)
	if announced.Type != "hostkeys-00@openssh.com" {
		t.Fatal(announced.Type)
	}
	ok, answer, err := conn.SendRequest("hostkeys-prove-00@openssh.com", true, announced.Payload)
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	for _, k := range []ssh.Signer{h.keeper.host, h.keeper.rsa} {
		var next struct {
			Signature []byte
			Rest      []byte `ssh:"rest"`
		}
		var signature ssh.Signature
		if err := errors.Join(ssh.Unmarshal(answer, &next), ssh.Unmarshal(next.Signature, &signature)); err != nil {
			t.Fatal(err)
		}
		data := ssh.Marshal(proof{"hostkeys-prove-00@openssh.com", conn.SessionID(), k.PublicKey().Marshal()})
		if err := k.PublicKey().Verify(data, &signature); err != nil || signature.Format == ssh.KeyAlgoRSA {
			t.Errorf("%s: %v", signature.Format, err)
		}
		answer = next.Rest
	}
	if ok, _, _ := conn.SendRequest("hostkeys-prove-00@openssh.com", true, ssh.Marshal(struct{ K []byte }{newSigner(t).PublicKey().Marshal()})); ok {
		t.Error("a key of somebody else was proved")
	}
}

// TestBrowser: who has no key logs in by her browser, and only as herself.
func TestBrowser(t *testing.T) {
	for user, lets := range map[string]bool{"alice": true, "bob": false, "": false} {
		h := open(t, func(c *Config, h *hall) { c.Browser = true })
		h.keeper.browser = func(login string) (Prompt, error) {
			return Prompt{Words: "open https://hub/ssh/login and type BCDF-GHJK", Until: time.Now().Add(time.Minute), Await: func(context.Context) (Pass, error) {
				if user == "" {
					return Pass{}, errs.New(errs.Forbidden, "refused")
				}
				return Pass{Owner: Owner{Hub: "main", User: user}, Session: sshauth.AnySession}, nil
			}}, nil
		}
		cfg, said := h.clientConfig("alice", nil), ""
		cfg.Auth = []ssh.AuthMethod{ssh.KeyboardInteractive(func(_, words string, questions []string, _ []bool) ([]string, error) {
			said += words
			return make([]string, len(questions)), nil
		})}
		c, err := ssh.Dial("tcp", h.address, cfg)
		if (err == nil) != lets || !strings.Contains(said, "BCDF-GHJK") {
			t.Errorf("%q: %v, %q", user, err, said)
		}
		if err == nil {
			_ = c.Close()
		}
	}
}

// TestBrowserLeft: who leaves while she is waited for is not waited for.
func TestBrowserLeft(t *testing.T) {
	h := open(t, func(c *Config, h *hall) { c.Browser = true })
	waiting, over := make(chan struct{}), make(chan struct{})
	h.keeper.browser = func(string) (Prompt, error) {
		return Prompt{Words: "x", Until: time.Now().Add(time.Minute), Await: func(ctx context.Context) (Pass, error) {
			close(waiting)
			<-ctx.Done()
			close(over)
			return Pass{}, ctx.Err()
		}}, nil
	}
	raw, err := net.Dial("tcp", h.address)
	if err != nil {
		t.Fatal(err)
	}
	cfg := h.clientConfig("alice", nil)
	cfg.Auth = []ssh.AuthMethod{ssh.KeyboardInteractive(func(_, _ string, _ []string, _ []bool) ([]string, error) { return nil, nil })}
	go func() { _, _, _, _ = ssh.NewClientConn(raw, h.address, cfg) }()
	<-waiting
	_ = raw.Close()
	select {
	case <-over:
	case <-time.After(30 * time.Second):
		t.Error("she is waited for")
	}
}
