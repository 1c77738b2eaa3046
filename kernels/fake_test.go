package kernels_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/kernels"
	"slipway/kernels/wire"
	"slipway/spawner"
)

// world is an engine with kernels, and their agents.
type world struct {
	mu      sync.Mutex
	work    []spawner.Workload
	changed chan struct{} // closed and replaced at each change
	asked   []spawner.KernelRequest
	slow    bool // a kernel that is asked for waits for its slice
	full    bool // kernels take no notebooks
	deeds   []kernels.Deed
	agents  map[spawner.ID]*agent
	visits  int
	waiting int // requests, for kernels that are not up
}

func newWorld() *world {
	return &world{changed: make(chan struct{}), agents: map[spawner.ID]*agent{}}
}

func (f *world) StartKernel(_ context.Context, c spawner.Caller, r spawner.KernelRequest) (spawner.Workload, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := slices.IndexFunc(f.work, func(w spawner.Workload) bool { return w.Launch == r.Launch && w.Owner == c.User }); i >= 0 {
		return f.work[i], nil
	}
	w := spawner.Workload{ID: spawner.ID("s-" + r.ID), KernelRecord: spawner.KernelRecord{Kernel: r.ID}, Kind: spawner.Kernel, Owner: c.User, Hub: c.Hub, Name: r.Name, Launch: r.Launch, Spec: r.Spec, Want: spawner.WantRunning, Phase: spawner.Running, Since: time.Now()}
	if f.slow {
		w.Phase = spawner.Pending
	}
	f.work, f.asked = append(f.work, w), append(f.asked, r)
	f.agents[w.ID] = newAgent()
	return w, nil
}

func (f *world) Kernels(c spawner.Caller) (list []spawner.Workload) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.work {
		if w.Owner == c.User && w.Hub == c.Hub {
			list = append(list, w)
		}
	}
	return list
}

func (f *world) Bind(_ context.Context, c spawner.Caller, id spawner.ID, n spawner.Notebook) (spawner.Workload, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.work, func(w spawner.Workload) bool { return w.ID == id && w.Owner == c.User })
	if i < 0 || f.full {
		return spawner.Workload{}, errs.New(errs.Conflict, "the kernel has ended")
	}
	list := slices.DeleteFunc(slices.Clone(f.work[i].Notebooks), func(o spawner.Notebook) bool { return o.ID == n.ID })
	f.work[i].Notebooks = append(list, n)
	return f.work[i], nil
}

func (f *world) Remove(_ context.Context, c spawner.Caller, id spawner.ID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.work = slices.DeleteFunc(f.work, func(w spawner.Workload) bool { return w.ID == id && w.Owner == c.User })
	f.agents[id].is((*agent).leave)
	f.tell()
	return nil
}

func (f *world) tell() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// become changes the only kernel.
func (f *world) become(edit func(*spawner.Workload)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	edit(&f.work[0])
	f.tell()
}

func (f *world) Await(ctx context.Context, c spawner.Caller, id spawner.ID, done func(spawner.Workload) bool) (spawner.Workload, error) {
	for {
		f.mu.Lock()
		i := slices.IndexFunc(f.work, func(w spawner.Workload) bool { return w.ID == id && w.Owner == c.User })
		var w spawner.Workload
		if i >= 0 {
			w = f.work[i]
		}
		changed := f.changed
		f.mu.Unlock()
		if i < 0 {
			return w, errs.New(errs.NotFound, "no workload")
		}
		if done(w) {
			return w, nil
		}
		f.wait(1)
		select {
		case <-ctx.Done():
			f.wait(-1)
			return w, ctx.Err()
		case <-changed:
			f.wait(-1)
		}
	}
}

func (f *world) wait(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting += n
}

// waits reports whether so many requests and websockets wait for kernels.
func (f *world) waits(n int) func() bool {
	return func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.waiting == n
	}
}

func (f *world) HowFar(spawner.Caller, spawner.ID) string { return "1 before it" }

func (f *world) Visit(spawner.ID, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.visits++
}

func (f *world) agent(id spawner.ID) *agent {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.agents[id]
}

// agent is a kernel's agent, which keeps what its clients have not acknowledged, and answers each request with what it
// said.
type agent struct {
	mu         sync.Mutex
	away       bool
	conns      []net.Conn
	streams    map[string]net.Conn // the last of each client
	journals   map[string][][]byte
	fresh      map[string]chan struct{} // wakes what pours a client's journal out
	acked      map[string]uint64
	cell       json.RawMessage // of each client
	asked      []wire.Asked    // likewise
	takes      bool            // it says what it has taken, unless it is silent
	silent     bool
	broken     bool            // what is sent to it is lost on the way
	lost       int             // messages of which that is so
	hold       chan struct{}   // it takes nothing before this is closed; nil: it does at once
	has        map[string]bool // messages that it has taken
	refuses    string          // why it takes no client
	interrupts int
	restarts   int
	heard      chan wire.Message
}

func newAgent() *agent {
	return &agent{streams: map[string]net.Conn{}, journals: map[string][][]byte{}, fresh: map[string]chan struct{}{}, acked: map[string]uint64{}, has: map[string]bool{}, takes: true, heard: make(chan wire.Message, 1000)}
}

func (a *agent) Kernel(context.Context) (control.KernelStatus, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.away {
		return control.KernelStatus{}, errs.New(errs.Unavailable, "it is away")
	}
	return control.KernelStatus{State: control.KernelIdle, Quiet: 60, Connections: len(a.conns)}, nil
}

func (a *agent) InterruptKernel(context.Context) error { a.interrupts++; return nil }
func (a *agent) RestartKernel(context.Context) error   { a.restarts++; return nil }

// leave takes it away. The lock is held, as for cut.
func (a *agent) leave() {
	a.away = true
	a.cut()
}

// cut breaks all ways to it. The lock is held.
func (a *agent) cut() {
	for _, c := range a.conns {
		_ = c.Close()
	}
	a.conns = nil
}

// is changes it.
func (a *agent) is(edit func(*agent)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	edit(a)
}

func (a *agent) dial(context.Context) (net.Conn, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.away {
		return nil, errs.New(errs.Unavailable, "it is away")
	}
	mine, theirs := net.Pipe()
	a.conns = append(a.conns, mine)
	go a.serve(mine)
	return theirs, nil
}

func (a *agent) serve(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	h, err := wire.ReadHello(r)
	if err != nil {
		return
	}
	fresh := make(chan struct{}, 1)
	fresh <- struct{}{}
	a.mu.Lock()
	a.seat(h, c)
	a.fresh[h.Client] = fresh
	v := wire.Welcome{State: "idle", Acked: a.acked[h.Client], Cell: a.cell, Takes: h.Takes && a.takes, Error: a.refuses}
	if h.Asks {
		v.Asked = a.asked
	}
	a.mu.Unlock()
	if wire.WriteWelcome(c, v) != nil || v.Error != "" {
		return
	}
	next := v.Acked
	var writing sync.Mutex
	taken := uint64(0)
	go a.pour(c, &writing, h.Client, next, fresh)
	for {
		up, err := wire.ReadUp(r)
		if err != nil {
			a.is(func(*agent) {
				if close(fresh); a.fresh[h.Client] == fresh {
					delete(a.fresh, h.Client)
				}
			})
			return
		}
		if up.Message == nil {
			a.is(func(a *agent) { a.acked[h.Client] = max(a.acked[h.Client], up.Ack) })
			continue
		}
		if !a.take(h, up.Message) {
			continue
		}
		if taken++; v.Takes && !a.keepsSilent() {
			writing.Lock()
			_ = wire.WriteTaken(c, taken) // who hears it no more comes again
			writing.Unlock()
		}
		select {
		case fresh <- struct{}{}:
		default:
		}
	}
}

// seat ends an older stream of the client, and forgets what is kept for one that begins anew. The lock is held.
func (a *agent) seat(h wire.Hello, c net.Conn) {
	if older := a.streams[h.Client]; older != nil {
		_ = older.Close()
	}
	a.streams[h.Client] = c
	if h.Fresh {
		delete(a.journals, h.Client)
		delete(a.acked, h.Client)
	}
}

// take takes a message for the kernel, which says it again.
func (a *agent) take(h wire.Hello, v1 []byte) bool {
	m, err := wire.DecodeV1(v1)
	if err != nil {
		return false
	}
	a.mu.Lock()
	hold := a.hold
	a.mu.Unlock()
	if hold != nil {
		<-hold
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.broken {
		a.lost++
		return false
	}
	if !h.Once || !a.has[m.ID()] {
		a.heard <- m
		a.has[m.ID()] = true
		m.Parent, m.Channel = m.Header, wire.IOPub
		a.journals[h.Client] = append(a.journals[h.Client], wire.EncodeV1(m))
	}
	return true
}

// says has the kernel say something by itself to a client that is there.
func (a *agent) says(client string, m wire.Message) {
	m.Channel = wire.IOPub
	a.mu.Lock()
	defer a.mu.Unlock()
	a.journals[client] = append(a.journals[client], wire.EncodeV1(m))
	select {
	case a.fresh[client] <- struct{}{}:
	default:
	}
}

func (a *agent) keepsSilent() bool { a.mu.Lock(); defer a.mu.Unlock(); return a.silent }

// pour writes what a client has not got yet.
func (a *agent) pour(c net.Conn, writing *sync.Mutex, client string, next uint64, fresh <-chan struct{}) {
	for range fresh {
		for {
			a.mu.Lock()
			journal := a.journals[client]
			a.mu.Unlock()
			if next >= uint64(len(journal)) {
				break
			}
			writing.Lock()
			err := wire.WriteDown(c, next+1, journal[next])
			writing.Unlock()
			if err != nil {
				return
			}
			next++
		}
	}
}

// site is a gateway over a world, with alice and bob, whose tokens are their names.
type site struct {
	*testing.T
	*world
	url  string
	http *http.Client
	end  func() // of the service
}

func newSite(t *testing.T, edit func(*kernels.Config)) *site {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return newSiteOn(t, l, &http.Client{}, edit)
}

// newSiteInMemory is a site in a bubble of package synctest, where nothing may come from outside.
func newSiteInMemory(t *testing.T, edit func(*kernels.Config)) *site {
	l := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return l.dial(ctx) }
	return newSiteOn(t, l, &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}, edit)
}

func newSiteOn(t *testing.T, l net.Listener, client *http.Client, edit func(*kernels.Config)) *site {
	f := newWorld()
	cfg := kernels.Config{
		Engine: f,
		Specs: func(c spawner.Caller) []kernels.Spec {
			if c.User == "bob" {
				return nil
			}
			return []kernels.Spec{{Name: "python", DisplayName: "Python (GPU)", Language: "python", Logos: kernels.Logos(kernels.LogoGPU), Session: spawner.Spec{
				Argv: []string{"python", "-f", "{connection_file}"}, Env: map[string]string{"KERNEL_SITE": "here"},
			}}}
		},
		Identify: func(r *http.Request) (spawner.Caller, error) {
			scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
			if !strings.EqualFold(scheme, "token") && !strings.EqualFold(scheme, "bearer") || token != "alice" && token != "bob" {
				return spawner.Caller{}, errs.New(errs.Unauthorized, "nobody is known to be calling")
			}
			return spawner.Caller{User: spawner.User(token), Hub: "main"}, nil
		},
		Tell: func(_ context.Context, d kernels.Deed) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.deeds = append(f.deeds, d)
		},
		Agent:  func(id spawner.ID) kernels.Agent { return f.agent(id) },
		Dial:   func(ctx context.Context, id spawner.ID) (net.Conn, error) { return f.agent(id).dial(ctx) },
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), Patience: 200 * time.Millisecond, Ping: long,
	}
	cfg.Lines = kernels.NewLines()
	if edit != nil {
		edit(&cfg)
	}
	ctx, end := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cfg.Lines.Run(ctx) }()
	t.Cleanup(func() { end(); <-ended })
	s := &httptest.Server{Listener: l, Config: &http.Server{
		Handler: http.StripPrefix("/kernels", kernels.New(cfg)), ConnContext: func(ctx context.Context, _ net.Conn) context.Context { return kernels.Accepted(ctx) },
	}}
	s.Start()
	t.Cleanup(s.Close)
	return &site{t, f, s.URL + "/kernels", client, end}
}

// pipes is a listener whose connections are pipes.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (p *pipes) dial(ctx context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

type answer struct {
	status int
	header http.Header
	text   string
}

func (a answer) field(name string) string {
	var body map[string]any
	_ = json.Unmarshal([]byte(a.text), &body)
	text, _ := body[name].(string)
	return text
}

func (s *site) as(user, method, path, body string) answer {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	r.Header.Set("Authorization", "token "+user)
	return s.do(r)
}

func (s *site) do(r *http.Request) answer {
	s.Helper()
	res, err := s.http.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, string(text)}
}

// start starts a kernel of alice's and gives its id.
func (s *site) start() string {
	s.Helper()
	a := s.as("alice", "POST", "/api/kernels", `{"name": "python"}`)
	if a.status != 201 {
		s.Fatalf("%+v", a)
	}
	return a.field("id")
}
