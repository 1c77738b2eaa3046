package sshgate

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"slipway/hubapi"
	"slipway/internal/errs"
	"slipway/internal/sshauth"
	"slipway/internal/sshtunnel"
	"slipway/internal/testenv"
	"slipway/spawner"
	"slipway/spawner/catalog"
)

// hall is a gate with all that is around it.
type hall struct {
	t       *testing.T
	gate    *Gate
	address string
	keeper  *fakeKeeper
	engine  *fakeEngine
	agent   *fakeAgent
	log     *testenv.Buffer
	stop    func() // ends the service
	linkCut func()
}

// offers are the profiles of everybody, beside one that is nobody's.
var offers = catalog.Catalogue{Profiles: []catalog.Profile{{Name: "small", Default: true}, {Name: "gpu10"}, {Name: "closed", Groups: []string{"cms"}}, {Name: "unsure", Groups: []string{"main:cms"}}}}.
	Only(func(p catalog.Profile) (bool, error) {
		if p.Name == "unsure" {
			return false, errors.New("the Hub does not say")
		}
		return p.Groups == nil, nil
	})

// open starts a gate with alice's session s-1 running.
func open(t *testing.T, change func(*Config, *hall)) *hall {
	t.Helper()
	h := &hall{t: t, keeper: newFakeKeeper(t), engine: newFakeEngine(), log: &testenv.Buffer{}}
	h.agent = newFakeAgent()
	dial, cut := h.agent.listen(t)
	h.linkCut = cut
	cfg := Config{
		Gatekeeper: h.keeper, Engine: h.engine, Offers: func(Owner) catalog.Catalogue { return offers },
		Start: h.engine.start, Stop: h.engine.stop,
		Dial: func(ctx context.Context, id spawner.ID) (net.Conn, error) { return dial(ctx) },
		Groups: func(Owner) []string {
			return []string{"higgs"}
		},
		AtOnce: 64, Logger: slog.New(slog.NewTextHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Deny: []netip.Prefix{netip.MustParsePrefix("169.254.0.0/16")},
	}
	cfg.Audit = func(_ context.Context, c spawner.Caller, action, what string, err error, which ...any) {
		cfg.Logger.Info(what, append([]any{"audit", action, "of", c.User, "err", err}, which...)...)
	}
	if change != nil {
		change(&cfg, h)
	}
	h.gate = New(cfg)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h.address = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = h.gate.Run(ctx, l)
	}()
	h.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case <-done:
		case <-time.After(testenv.Hang):
			t.Error("the gate does not end")
		}
	})
	t.Cleanup(h.stop)
	return h
}

// client logs in.
func (h *hall) client(login string, key ssh.Signer) (*ssh.Client, error) {
	return ssh.Dial("tcp", h.address, h.clientConfig(login, key))
}

func (h *hall) clientConfig(login string, key ssh.Signer) *ssh.ClientConfig {
	return &ssh.ClientConfig{
		User: login, Auth: []ssh.AuthMethod{ssh.PublicKeys(key)}, HostKeyCallback: ssh.InsecureIgnoreHostKey(), Timeout: testenv.Hang,
		HostKeyAlgorithms: []string{ssh.KeyAlgoED25519},
	}
}

// alice logs in as alice.
func (h *hall) alice(login string) *ssh.Client {
	h.t.Helper()
	c, err := h.client(login, h.keeper.alice)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = c.Close() })
	return c
}

// fakeKeeper knows one key of alice's and one of bob's.
type fakeKeeper struct {
	alice, bob, host, rsa ssh.Signer
	session               string // that passes are for
	lost                  bool   // none holds when it is looked at again

	mu      sync.Mutex
	used    int
	revoke  func(func(Pass) bool)
	browser func(login string) (Prompt, error)
}

func newSigner(t testing.TB) ssh.Signer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// rsaKey is slow to make.
var rsaKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

func newFakeKeeper(t testing.TB) *fakeKeeper {
	private, err := rsaKey()
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return &fakeKeeper{alice: newSigner(t), bob: newSigner(t), host: newSigner(t), rsa: signer, session: sshauth.AnySession}
}

func (k *fakeKeeper) HostKeys() []ssh.Signer { return []ssh.Signer{k.host, k.rsa} }

func (k *fakeKeeper) Check(login string, key ssh.PublicKey) (Pass, error) {
	for user, signer := range map[string]ssh.Signer{"alice": k.alice, "bob": k.bob} {
		if bytes.Equal(signer.PublicKey().Marshal(), key.Marshal()) { // the gate is to see for itself that the name does not fit
			return Pass{Owner: Owner{Hub: "main", User: user}, Key: ssh.FingerprintSHA256(key), Session: k.session}, nil
		}
	}
	return Pass{}, errs.New(errs.Unauthorized, "no such key")
}

func (k *fakeKeeper) Holds(Pass) bool { return !k.lost }

func (k *fakeKeeper) Used(Pass, netip.Addr) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.used++
}

func (k *fakeKeeper) OnRevoke(call func(func(Pass) bool)) { k.revoke = call }

func (k *fakeKeeper) Browser(_ context.Context, login string, _ netip.Addr) (Prompt, error) {
	return k.browser(login)
}

// fakeEngine has workloads that tests change.
type fakeEngine struct {
	mu      sync.Mutex
	all     map[spawner.ID]spawner.Workload
	changed chan struct{}
	visits  []spawner.ID
	started []hubapi.ServerRequest
	stopped []string
	begin   func(ctx context.Context, r hubapi.ServerRequest, tell func(hubapi.Progress)) error
}

func newFakeEngine() *fakeEngine {
	e := &fakeEngine{all: map[spawner.ID]spawner.Workload{}, changed: make(chan struct{})}
	e.set(session("s-1", "", "small", spawner.Running, spawner.WantRunning))
	return e
}

func (e *fakeEngine) set(w spawner.Workload) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all[w.ID] = w
	close(e.changed)
	e.changed = make(chan struct{})
}

func (e *fakeEngine) List(_ context.Context, c spawner.Caller) (out []spawner.Workload, _ error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, w := range e.all {
		if w.Owner == c.User && w.Hub == c.Hub {
			out = append(out, w)
		}
	}
	return out, nil
}

func (e *fakeEngine) Await(ctx context.Context, c spawner.Caller, id spawner.ID, done func(spawner.Workload) bool) (spawner.Workload, error) {
	for {
		e.mu.Lock()
		w, changed := e.all[id], e.changed
		e.mu.Unlock()
		if w.Owner != c.User {
			return w, errs.New(errs.NotFound, "no such session")
		}
		if done(w) {
			return w, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return w, ctx.Err()
		}
	}
}

func (e *fakeEngine) Events(context.Context, spawner.Caller, spawner.ID, string, int64) (iter.Seq[spawner.Event], error) {
	return func(yield func(spawner.Event) bool) { yield(spawner.Event{Message: "it is on its way"}) }, nil
}

func (e *fakeEngine) Visit(id spawner.ID, _ bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.visits = append(e.visits, id)
}

func (e *fakeEngine) start(ctx context.Context, c spawner.Caller, r hubapi.ServerRequest, tell func(hubapi.Progress)) (hubapi.Session, bool, error) {
	e.mu.Lock()
	e.started = append(e.started, r)
	e.mu.Unlock()
	if e.begin == nil {
		return hubapi.Session{}, false, errors.New("nothing is started here")
	}
	err := e.begin(ctx, r, tell)
	if err == nil {
		e.set(session("s-9", r.Name, "gpu10", spawner.Running, spawner.WantRunning))
	}
	return hubapi.Session{}, true, err
}

func (e *fakeEngine) stop(_ context.Context, _ spawner.Caller, name string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stopped = append(e.stopped, name)
	return nil
}

func (e *fakeEngine) seen(f func(e *fakeEngine) bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return f(e)
}

// fakeAgent serves channels as a session would.
type fakeAgent struct {
	mu       sync.Mutex
	requests []string
	peer     *sshtunnel.Peer
}

func newFakeAgent() *fakeAgent { return &fakeAgent{} }

func (a *fakeAgent) Request(_ context.Context, p *sshtunnel.Peer, kind string, payload []byte) (bool, []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests, a.peer = append(a.requests, kind), p
	return kind == "tcpip-forward" || kind == "echo@example.org", payload
}

func (a *fakeAgent) Left(*sshtunnel.Peer) {}

// Channel: a session echoes its input, or does what exec says; a connection greets with where it leads.
func (a *fakeAgent) Channel(ctx context.Context, p *sshtunnel.Peer, i *sshtunnel.Incoming) {
	switch i.Kind {
	case kindSession:
		c, err := i.Accept(ctx)
		if err == nil {
			a.session(ctx, p, c)
		}
	case kindTCP:
		if bytes.Contains(i.Extra, []byte("nobody")) {
			_ = i.Refuse(uint32(ssh.ConnectionFailed), "Connection refused")
			return
		}
		c, err := i.Accept(ctx)
		if err == nil {
			_, _ = io.Copy(c, c)
			_ = c.Close()
		}
	default:
		_ = i.Refuse(uint32(ssh.UnknownChannelType), "no "+i.Kind+" here")
	}
}

func (a *fakeAgent) session(ctx context.Context, p *sshtunnel.Peer, c *sshtunnel.Channel) {
	defer c.Close()
	for r := range c.Requests() {
		ok := r.Kind != "nonsense@example.org" && !bytes.Contains(r.Payload, []byte("unknown"))
		_ = r.Reply(ok)
		var run struct{ Command string }
		if r.Kind == "exec" {
			_ = ssh.Unmarshal(r.Payload, &run)
		}
		if !ok || !runs(r.Kind) {
			continue
		}
		switch run.Command {
		case "hang":
			<-c.Done()
			return
		case "big":
			_, _ = c.Write(bytes.Repeat([]byte("0123456789abcdef"), 1<<16))
		case "reach":
			_, err := p.Open(ctx, kindFromTCP, []byte("x"))
			_, _ = c.Write([]byte(errText(err)))
		case "slow": // takes its input when the client has gone
			<-c.Done()
			n, err := io.Copy(io.Discard, c)
			a.note(fmt.Sprintf("%d bytes, %v", n, err))
			return
		case "true":
		default:
			_, _ = io.Copy(c, c)
			_, _ = c.Stderr().Write([]byte("done"))
		}
		_, _ = c.Send(ctx, "exit-status", false, ssh.Marshal(struct{ S uint32 }{3}))
		_ = c.CloseWrite()
		return
	}
}

func (a *fakeAgent) note(what string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests = append(a.requests, what)
}

func (a *fakeAgent) has(what string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Contains(a.requests, what)
}

func errText(err error) string {
	if err == nil {
		return "open"
	}
	return err.Error()
}

// listen serves the agent's ssh door. cut ends all streams that there are.
func (a *fakeAgent) listen(t *testing.T) (dial func(context.Context) (net.Conn, error), cut func()) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var streams []net.Conn
	s := sshtunnel.NewServer(a, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			streams = append(streams, c)
			mu.Unlock()
			serving.Go(func() { s.Serve(ctx, c) })
		}
	})
	cut = func() {
		mu.Lock()
		defer mu.Unlock()
		for _, c := range streams {
			_ = c.Close()
		}
	}
	t.Cleanup(func() {
		_ = l.Close()
		cancel()
		cut()
		serving.Wait()
	})
	return func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", l.Addr().String())
	}, cut
}

// eventually waits until something holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	testenv.Until(t, what, testenv.Hang, holds)
}
