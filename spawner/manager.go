package spawner

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
)

// Store keeps records over restarts of the service. internal/store has it.
type Store interface {
	Put(ctx context.Context, bucket, key string, value any) error
	Delete(ctx context.Context, bucket, key string) error
	All(ctx context.Context, bucket string) iter.Seq2[Record, error]
}

// Record is one key and its JSON value.
type Record = struct {
	Key   string
	Value json.RawMessage
}

// Agent is one workload's agent, as control.Client speaks to it.
type Agent interface {
	Watch(ctx context.Context, each func(control.Status) error) error
	Launch(ctx context.Context, app control.App) error
	Put(ctx context.Context, name string, size int64, r io.Reader) error
	Log(ctx context.Context, from int64, follow bool) (io.ReadCloser, error)
	File(ctx context.Context, name string) (io.ReadCloser, int64, error)
}

// Agents are the links to the agents of workloads. internal/tunnel has them; their owner calls Manager.LinkChanged.
type Agents interface {
	// Open listens at socket for the agent of id, which runs as uid. Opening twice is harmless.
	Open(id ID, socket string, uid int) error
	// Close ends the link and removes the socket.
	Close(id ID)
	// Agent gives the agent of id. Its methods fail while the link is down.
	Agent(id ID) Agent
}

// Limits are how long a phase may last before the workload is given up.
type Limits struct {
	Armed time.Duration // until the Hub repeats a request that a restart of the service cut off. Zero: 90 s
	Agent time.Duration // from the backend's start to the agent's first word. Zero: 60 s
	Boot  time.Duration // from there to the first answer. Zero: 3 min
	Grace time.Duration // between asking a workload to end and killing it. Zero: 10 s
}

// Config is what a Manager needs. All fields without a stated default are required.
type Config struct {
	Store    Store
	Backends []Backend
	Agents   Agents
	// Account gives the account of a user, making it at the first time.
	Account func(ctx context.Context, user User) (Account, error)
	// Environment finds an environment by digest, name or tag among those that user may use: its digest and its SIF file.
	// Nil: there are none.
	Environment func(ctx context.Context, user User, ref string) (digest, path string, err error)
	Dir         string              // the workloads' own directories
	AgentDir    string              // holds the agent's program
	Capacity    map[string]Capacity // by backend; a backend that is not in it is not limited
	Sessions    string              // the backend of sessions
	Jobs        string              // the backend of jobs whose submitter names none
	Limits      Limits
	Interval    time.Duration // between two looks at every active workload. Zero: 15 s
	Workers     int           // workloads worked on at once. Zero: 64
	Logger      *slog.Logger
}

// Manager carries out what next decides. Its methods are safe for concurrent use. They may be called as soon as New has returned;
// Run makes things happen.
type Manager struct {
	cfg      Config
	backends map[string]Backend
	queue    *queue
	log      *slog.Logger
	links    chan linkChange // to Run
	born     time.Time

	mu        sync.Mutex // guards all below, and the entries
	work      map[ID]*entry
	routes    map[string]ID // prefix of an active session
	longest   int           // of the prefixes so far
	ledger    ledger
	ready     bool // the first look at everything is done
	startTook []time.Duration
	orphans   int
}

// entry is one workload with what is known of it while the service runs.
type entry struct {
	Workload
	secrets    control.Env
	started    bool           // the backend's Start succeeded for this launch
	startedAt  time.Time      // when it did
	collecting time.Time      // since when what its app left is being fetched; zero: it is not
	status     control.Status // the agent's last word; zero while the link is down
	journal    journal
	abort      context.CancelFunc // ends what is being done and may take long; nil when nothing is
	changed    chan struct{}      // closed and replaced at every change
	copying    chan struct{}      // holds one token while a job's log is being copied here
}

const (
	bucket     = "workloads"
	linkSocket = "service.sock" // in the link directory; the base of control.LinkSocket
)

// New makes a Manager over the records in the store.
func New(ctx context.Context, cfg Config) (*Manager, error) {
	cfg.fill()
	m := &Manager{
		cfg: cfg, backends: map[string]Backend{}, queue: newQueue(), log: cfg.Logger, links: make(chan linkChange, 64), born: time.Now(),
		work: map[ID]*entry{}, routes: map[string]ID{}, ledger: newLedger(cfg.Capacity),
	}
	for _, b := range cfg.Backends {
		m.backends[b.Name()] = b
	}
	for _, name := range []string{cfg.Sessions, cfg.Jobs} {
		if name != "" && m.backends[name] == nil {
			return nil, fmt.Errorf("no backend is called %q", name)
		}
	}
	return m, m.load(ctx)
}

func (c *Config) fill() {
	orElse := func(d *time.Duration, otherwise time.Duration) {
		if *d == 0 {
			*d = otherwise
		}
	}
	orElse(&c.Limits.Armed, 90*time.Second)
	orElse(&c.Limits.Agent, time.Minute)
	orElse(&c.Limits.Boot, 3*time.Minute)
	orElse(&c.Limits.Grace, 10*time.Second)
	orElse(&c.Interval, 15*time.Second)
	if c.Workers == 0 {
		c.Workers = 64
	}
}

// load reads the records, and with them the leases.
func (m *Manager) load(ctx context.Context) error {
	for r, err := range m.cfg.Store.All(ctx, bucket) {
		if err != nil {
			return fmt.Errorf("read the workloads: %w", err)
		}
		var w Workload
		if err := json.Unmarshal(r.Value, &w); err != nil {
			return fmt.Errorf("read workload %s: %w", r.Key, err)
		}
		m.recallLocked(m.admitLocked(w))
	}
	return nil
}

// recallLocked writes down where a workload of an earlier run of the service stands: its events were not saved, and who follows
// them waits for the last one.
func (m *Manager) recallLocked(e *entry) {
	switch {
	case e.Phase == Stopped:
		m.noteLocked(e, farewell(*e))
	case e.Phase == Running && e.Kind == Job:
		m.noteLocked(e, Event{Percent: 50, Message: "The job runs"})
	case e.Phase == Running:
		m.noteLocked(e, Event{Percent: 100, Message: title(e.Kind) + " is ready", Final: true})
	}
}

func newEntry(w Workload) *entry {
	return &entry{Workload: w, changed: make(chan struct{}), copying: make(chan struct{}, 1)}
}

// admitLocked takes a workload into memory.
func (m *Manager) admitLocked(w Workload) *entry {
	e := newEntry(w)
	m.work[w.ID] = e
	m.bookLocked(e)
	return e
}

// bookLocked makes ledger and routes agree with a workload's phase.
func (m *Manager) bookLocked(e *entry) {
	if e.Phase.Active() && e.Phase != Pending {
		m.ledger.enter(e.Backend, e.ID, e.Spec.Resources)
	} else {
		m.ledger.strike(e.Backend, e.ID)
	}
	if e.Spec.Prefix == "" {
		return
	}
	if e.Phase.Active() {
		m.routes[e.Spec.Prefix] = e.ID
		m.longest = max(m.longest, len(e.Spec.Prefix))
	} else if m.routes[e.Spec.Prefix] == e.ID {
		delete(m.routes, e.Spec.Prefix)
	}
}

// Run looks after all workloads until ctx ends. It returns when everything it started has ended; sessions and jobs run on.
func (m *Manager) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for range m.cfg.Workers {
		g.Go(func() error { m.labour(ctx); return nil })
	}
	g.Go(func() error { m.followLinks(ctx); return nil })
	g.Go(func() error { m.patrol(ctx); return nil })
	err := g.Wait()
	m.queue.stop()
	return err
}

// labour works on one workload after the other.
func (m *Manager) labour(ctx context.Context) {
	for {
		id, ok := m.queue.get(ctx)
		if !ok {
			return
		}
		m.reconcile(ctx, id)
		m.queue.done(id)
	}
}

// Wake asks for a look at a workload now; backends that hear of changes call it.
func (m *Manager) Wake(id ID) { m.queue.add(id) }

// Ready tells why the Manager cannot answer for its workloads yet; nil when it can.
func (m *Manager) Ready() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.ready {
		return errs.New(errs.Unavailable, "the service is still looking at what runs").With("try again in a few seconds")
	}
	return nil
}

// newID makes an ID of a kind.
func newID(k Kind) ID {
	prefix := ID("s-")
	if k == Job {
		prefix = "j-"
	}
	return prefix + ID(strings.ToLower(rand.Text()[:16]))
}

// kindOf tells jobs from sessions by the ID alone: Job, or Lab for any session.
func kindOf(id ID) Kind {
	if strings.HasPrefix(string(id), "j-") {
		return Job
	}
	return Lab
}

func (m *Manager) dir(id ID) string { return filepath.Join(m.cfg.Dir, string(id)) }

// change saves a change of a workload and makes it known. The change is refused (false) when the workload is gone or not of
// revision rev any more: what was decided on an older record does not overrule a newer one. Nothing changes when it cannot
// be saved.
func (m *Manager) change(ctx context.Context, id ID, rev int64, edit func(*entry)) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.work[id]
	if e == nil || e.Rev != rev {
		return false, nil
	}
	return true, m.changeLocked(ctx, e, edit)
}

// changeLocked saves under the lock: the store takes about a millisecond, and the order of records is the order of changes.
func (m *Manager) changeLocked(ctx context.Context, e *entry, edit func(*entry)) error {
	next := *e
	edit(&next)
	next.Rev++
	if next.Phase != e.Phase {
		next.Since = time.Now()
	}
	// A change that was begun is saved also when its caller has gone.
	if err := m.cfg.Store.Put(context.WithoutCancel(ctx), bucket, string(e.ID), next.Workload); err != nil {
		return fmt.Errorf("save %s: %w", e.ID, err)
	}
	freed := e.Phase.Active() && !next.Phase.Active()
	if e.Phase != next.Phase {
		m.log.Info("workload", "id", e.ID, "owner", e.Owner, "from", e.Phase, "to", next.Phase, "want", next.Want)
	}
	*e = next
	m.bookLocked(e)
	m.announceLocked(e)
	m.queue.add(e.ID)
	if freed {
		m.wakePendingLocked(e.Backend)
	}
	return nil
}

// announceLocked lets all that wait on a workload look again.
func (m *Manager) announceLocked(e *entry) {
	close(e.changed)
	e.changed = make(chan struct{})
}

func (m *Manager) wakePendingLocked(backend string) {
	for id, e := range m.work {
		if e.Phase == Pending && e.Backend == backend {
			m.queue.add(id)
		}
	}
}

// noteLocked writes an event into a workload's journal.
func (m *Manager) noteLocked(e *entry, ev Event) {
	ev.Time, ev.Launch = time.Now(), e.Launch
	e.journal.note(ev)
	m.announceLocked(e)
}

func (m *Manager) note(id ID, ev Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.work[id]; e != nil {
		m.noteLocked(e, ev)
	}
}

// Get gives a workload that the caller may see.
func (m *Manager) Get(_ context.Context, c Caller, id ID) (Workload, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, err := m.entryLocked(c, id)
	if err != nil {
		return Workload{}, err
	}
	return e.Workload, nil
}

// entryLocked finds a workload. One that is not the caller's is not found, like one that does not exist.
func (m *Manager) entryLocked(c Caller, id ID) (*entry, error) {
	e := m.work[id]
	if e == nil || !c.may(e.Workload) {
		return nil, errs.New(errs.NotFound, "there is no session or job %q of yours", id).With("`slipway sessions` and `slipway jobs` list them")
	}
	return e, nil
}

// List gives the workloads that the caller may see, oldest first.
func (m *Manager) List(_ context.Context, c Caller) ([]Workload, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []Workload
	for e := range maps.Values(m.work) {
		if c.may(e.Workload) {
			list = append(list, e.Workload)
		}
	}
	slices.SortFunc(list, func(a, b Workload) int { return a.Created.Compare(b.Created) })
	return list, nil
}

// Stop ends a workload: a session keeps its changes, a job is cancelled. It returns at once; Await waits. Stopping what is
// stopped is success.
func (m *Manager) Stop(ctx context.Context, c Caller, id ID) (Workload, error) {
	return m.wish(ctx, c, id, WantStopped)
}

// Remove ends a workload if need be, removes all that is left of it (a session's changes, a job's files) and forgets it. It
// returns at once.
func (m *Manager) Remove(ctx context.Context, c Caller, id ID) error {
	_, err := m.wish(ctx, c, id, WantGone)
	return err
}

// wish records what the owner wants. What is to be gone stays so.
func (m *Manager) wish(ctx context.Context, c Caller, id ID, want Want) (Workload, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, err := m.entryLocked(c, id)
	if err != nil {
		return Workload{}, err
	}
	if e.Want == want || e.Want == WantGone {
		return e.Workload, nil
	}
	err = m.changeLocked(ctx, e, func(e *entry) { e.Want = want })
	if err == nil && e.abort != nil {
		e.abort()
	}
	return e.Workload, err
}

// Await gives the workload as soon as done says so, or as it is when ctx ends, with ctx's error. A workload that is forgotten
// meanwhile is NotFound.
func (m *Manager) Await(ctx context.Context, c Caller, id ID, done func(Workload) bool) (Workload, error) {
	for {
		w, changed, err := m.peek(c, id)
		if err != nil || done(w) {
			return w, err
		}
		select {
		case <-ctx.Done():
			return w, ctx.Err()
		case <-changed:
		}
	}
}

func (m *Manager) peek(c Caller, id ID) (Workload, <-chan struct{}, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, err := m.entryLocked(c, id)
	if err != nil {
		return Workload{}, nil, err
	}
	return e.Workload, e.changed, nil
}

// Route finds the session to which a decoded URL path belongs: the active one with the longest prefix of path.
func (m *Manager) Route(path string) (ID, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	path = path[:min(len(path), m.longest)] // no prefix is longer, and a visitor's path may be
	for end := len(path); end > 0; end = strings.LastIndexByte(path[:end-1], '/') + 1 {
		if id, ok := m.routes[path[:end]]; ok {
			return id, true
		}
		if end == 1 {
			break
		}
	}
	return "", false
}
