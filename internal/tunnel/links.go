package tunnel

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"os"
	"sync"

	"slipway/internal/clock"
	"slipway/internal/errs"
	"slipway/internal/taskgroup"
)

// Config is what Links needs.
type Config struct {
	Logger *slog.Logger
	// Changed is told when a workload's link comes up (also when a new connection has replaced the old one) and when it
	// goes down; for one workload never two calls at once. May be nil.
	Changed func(id string, up bool)
	// User names the user of a workload, who is bounded in what her agents can have the service keep. Nil: each
	// workload is one of its own.
	User func(id string) string
}

// Links is the service's side: it listens for the agents of all workloads of this host, and takes in those of other
// hosts.
type Links struct {
	log     *slog.Logger
	pool    *sync.Pool // of bursts' buffers
	changed func(string, bool)
	user    func(string) string
	unread  *unreadBook
	tasks   *taskgroup.Group // of Open and of Upgrade; ends with Run

	mu    sync.Mutex
	links map[string]*link
	added chan struct{} // closed, and made anew, with each link
	doors map[Door]*listener
	ended bool
}

// New makes a Links. Run must be called; links may be opened before it.
func New(cfg Config) *Links {
	if cfg.Changed == nil {
		cfg.Changed = func(string, bool) {}
	}
	if cfg.User == nil {
		cfg.User = func(id string) string { return id }
	}
	return &Links{
		user: cfg.User, unread: newUnreadBook(), log: cfg.Logger, pool: newPool(), changed: cfg.Changed,
		tasks: taskgroup.New(context.Background()),
		links: map[string]*link{}, added: make(chan struct{}), doors: map[Door]*listener{},
	}
}

// Run returns when ctx has ended, all links are down and all that they started has ended. The sockets' files stay: the
// agents dial them until the next service listens.
func (l *Links) Run(ctx context.Context) error {
	<-ctx.Done()
	l.mu.Lock()
	l.ended = true
	for _, k := range l.links {
		k.shut()
	}
	l.mu.Unlock()
	l.tasks.End()
	l.tasks.Wait()
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
		return errs.New(
			errs.Conflict, "open the link of %s on %s: it is open on %s", id, socket, cmp.Or(k.path, "no socket"),
		)
	}
	s, err := listen(socket, uid)
	if err != nil {
		return err
	}
	k := l.add(id)
	k.path, k.uid, k.socket = socket, uid, s
	l.tasks.Go(func(context.Context) { k.listen(k.ctx) })
	return nil
}

// Expect lets the agent of workload id come from another host, by Upgrade. Expecting whom is expected is success.
func (l *Links) Expect(id string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return errs.New(errs.Unavailable, "expect the agent of %s: the service is ending", id)
	}
	if k := l.links[id]; k != nil {
		if k.visitors != nil {
			return nil
		}
		return errs.New(errs.Conflict, "expect the agent of %s from another host: its link is open on %s", id, k.path)
	}
	l.add(id).visitors = &visitors{}
	return nil
}

// add makes a link. The caller holds mu.
func (l *Links) add(id string) *link {
	k := &link{id: id, owner: l, up: make(chan struct{})}
	k.ctx, k.cancel = context.WithCancel(l.tasks.Context())
	l.links[id] = k
	close(l.added)
	l.added = make(chan struct{})
	return k
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
	k.shut()
	if k.path != "" {
		_ = os.Remove(k.path)
	}
}

// Up reports whether the agent of id is connected.
func (l *Links) Up(id string) bool {
	k := l.find(id)
	return k != nil && k.current() != nil
}

// Count returns how many agents are connected.
func (l *Links) Count() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.links {
		if k.current() != nil {
			n++
		}
	}
	return n
}

// Wait waits until the agent of id is connected.
func (l *Links) Wait(ctx context.Context, id string) error {
	k := l.find(id)
	if k == nil {
		return errs.New(errs.Unavailable, "the link of %s is not open", id)
	}
	return k.wait(ctx)
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
	return m.open(ctx, door)
}

// DialWhenUp opens a stream to the agent of id as soon as it is connected. A link that is not open yet, as in the first
// moments of a service, or that is lost before the stream is open, is waited for until ctx ends.
func (l *Links) DialWhenUp(ctx context.Context, id string, door Door) (net.Conn, error) {
	for {
		k, err := l.await(ctx, id)
		if err != nil {
			return nil, err
		}
		if err := k.wait(ctx); err != nil {
			return nil, err
		}
		m := k.current()
		if m == nil {
			continue
		}
		c, err := m.open(ctx, door)
		if err == nil {
			return c, nil
		}
		if !m.session.IsClosed() || !clock.Sleep(ctx, firstPause) {
			return nil, err
		}
	}
}

// Streams listens for the streams that agents open at door. A second call for the same door takes over from the first.
// Its connections have a method WorkloadID.
func (l *Links) Streams(door Door) net.Listener {
	s := &listener{door: door, conns: make(chan *Conn), done: make(chan struct{}), ended: l.tasks.Done()}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.doors[door] = s
	return s
}

// await returns the link of id as soon as there is one.
func (l *Links) await(ctx context.Context, id string) (*link, error) {
	for {
		l.mu.Lock()
		k, added := l.links[id], l.added
		l.mu.Unlock()
		if k != nil {
			return k, nil
		}
		select {
		case <-added:
		case <-l.tasks.Done():
			return nil, errs.New(errs.Unavailable, "the link of %s is not open: the service is ending", id)
		case <-ctx.Done():
			return nil, errs.New(errs.Unavailable, "the link of %s is not open", id)
		}
	}
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
