package tunnel

import (
	"context"
	"log/slog"
	"net"
	"os"
	"sync"

	"slipway/internal/errs"
)

// Config is what Links needs.
type Config struct {
	Logger *slog.Logger
	// Changed is told when a workload's link comes up (also when a new connection has replaced the old one) and when it
	// goes down; for one workload never two calls at once. May be nil.
	Changed func(id string, up bool)
}

// Links is the service's side: it listens for the agents of all workloads of this host.
type Links struct {
	log     *slog.Logger
	changed func(string, bool)
	ctx     context.Context // ends with Run; bounds the goroutines that Open and Dial start
	cancel  context.CancelFunc

	mu    sync.Mutex
	links map[string]*link
	doors map[Door]*listener
	ended bool
	work  sync.WaitGroup
}

// New makes a Links. Run must be called; links may be opened before it.
func New(cfg Config) *Links {
	if cfg.Changed == nil {
		cfg.Changed = func(string, bool) {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &Links{log: cfg.Logger, changed: cfg.Changed, ctx: ctx, cancel: cancel,
		links: map[string]*link{}, doors: map[Door]*listener{}}
}

// Run returns when ctx has ended, all links are down and all that they started has ended. The sockets' files stay: the
// agents dial them until the next service listens.
func (l *Links) Run(ctx context.Context) error {
	<-ctx.Done()
	l.mu.Lock()
	l.ended = true
	for _, k := range l.links {
		_ = k.socket.Close()
	}
	l.mu.Unlock()
	l.cancel()
	l.work.Wait()
	return ctx.Err()
}

// Open listens on socket for the agent of workload id, whose processes run as uid. Opening what is open is success.
func (l *Links) Open(id, socket string, uid int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return errs.New(errs.Unavailable, "open the link of %s: the service is ending", id)
	}
	if k := l.links[id]; k != nil {
		if k.path == socket && k.uid == uid {
			return nil
		}
		return errs.New(errs.Conflict, "open the link of %s on %s: it is open on %s", id, socket, k.path)
	}
	s, err := listen(socket, uid)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(l.ctx)
	k := &link{id: id, path: socket, uid: uid, socket: s, owner: l, cancel: cancel, up: make(chan struct{}), gone: ctx.Done()}
	l.links[id] = k
	l.work.Go(func() { k.listen(ctx) })
	return nil
}

// Close ends the link of id, and removes its socket. Closing what is not open is nothing.
func (l *Links) Close(id string) {
	l.mu.Lock()
	k := l.links[id]
	delete(l.links, id)
	l.mu.Unlock()
	if k == nil {
		return
	}
	k.cancel()
	_ = k.socket.Close()
	_ = os.Remove(k.path)
}

// Up reports whether the agent of id is connected.
func (l *Links) Up(id string) bool {
	k := l.find(id)
	return k != nil && k.current() != nil
}

// Wait waits until the agent of id is connected.
func (l *Links) Wait(ctx context.Context, id string) error {
	k := l.find(id)
	if k == nil {
		return errs.New(errs.Unavailable, "the link of %s is not open", id)
	}
	select {
	case <-k.whenUp():
		return nil
	case <-k.gone:
		return errs.New(errs.Unavailable, "the link of %s was closed", id)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Dial opens a stream to the agent of id. It does not wait for an agent that is not connected.
func (l *Links) Dial(ctx context.Context, id string, door Door) (net.Conn, error) {
	k := l.find(id)
	if k == nil {
		return nil, errs.New(errs.Unavailable, "%s has no link", id)
	}
	m := k.current()
	if m == nil {
		return nil, errs.New(errs.Unavailable, "the agent of %s is not connected", id)
	}
	c, err := m.open(ctx, door)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Streams listens for the streams that agents open at door. A second call for the same door takes over from the first.
// Its connections have a method WorkloadID.
func (l *Links) Streams(door Door) net.Listener {
	s := &listener{door: door, conns: make(chan *Conn), done: make(chan struct{}), ended: l.ctx.Done()}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.doors[door] = s
	return s
}

func (l *Links) find(id string) *link {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.links[id]
}

// deliver hands a stream to whoever listens at its door.
func (l *Links) deliver(_ context.Context, door Door, c *Conn) {
	l.mu.Lock()
	s := l.doors[door]
	l.mu.Unlock()
	if s == nil || !s.offer(c) {
		l.log.Debug("stream refused: nobody listens at its door", "workload", c.id, "door", string(door))
		_ = c.Close()
	}
}
