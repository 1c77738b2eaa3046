// Package engine keeps workloads (sessions, jobs and kernels) in the state that their owners want. It is the one owner
// of their records.
//
// Promises: a workload is saved before anything is done for it; its resources are leased before it starts and given
// back only when it was seen gone; what a killed service left is found again by the workload's ID and adopted; a
// stopped session keeps its changes. Who may see or change a workload is decided here, in the Manager's methods, and
// nowhere else.
//
// What is to be done next for a workload package lifecycle decides; the Manager alone carries it out. Records are changed
// through a Tx or an Update alone. What is particular to sessions, jobs and kernels is in packages above this one, which
// the Manager asks through Kind. The package must not import a backend, and knows nothing of images beyond their names,
// nor of HTTP.
package engine

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"slipway/internal/agent/control"
	"slipway/internal/clock"
	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/accounting"
	"slipway/spawner/backends"
	"slipway/spawner/culling"
	"slipway/spawner/jobfiles"
	"slipway/spawner/journal"
	"slipway/spawner/launch"
	"slipway/spawner/sched"
	"slipway/spawner/workqueue"
)

// Store keeps records over restarts of the service. internal/store has it.
type Store interface {
	// Put and Delete are quick, in order, and outlive the service; a crash of the host they outlive once Sync has
	// returned.
	Put(ctx context.Context, bucket, key string, value any) error
	Delete(ctx context.Context, bucket, key string) error
	All(ctx context.Context, bucket string) iter.Seq2[Record, error]
	// PutAll is many Puts, of which all are done or none.
	PutAll(ctx context.Context, bucket string, values map[string]any) error
	// Sync makes all that was written before it safe. Any number may wait for it at once.
	Sync(ctx context.Context) error
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
	Activity(ctx context.Context) (control.Activity, error)
	Notify(ctx context.Context, text string) error
	// Changes returns what a session on another host has changed until now.
	Changes(ctx context.Context, r control.ChangesRequest) (io.ReadCloser, error)
	// End ends the app, and the agent after it. It returns when the app has ended.
	End(ctx context.Context) error
}

// Sealer makes secrets fit to lie in the store, and opens them again after a restart; purpose must be the same both
// times. secret.Box is one.
type Sealer interface {
	Seal(plain []byte, purpose string) []byte
	Open(sealed []byte, purpose string) ([]byte, error)
}

// Agents are the links to the agents of workloads. internal/tunnel has them; their owner calls Manager.LinkChanged.
type Agents interface {
	// Open listens at socket for the agent of id, which runs as uid. Opening twice is harmless.
	Open(id spawner.ID, socket string, uid int) error
	// Expect lets in the agent of id when it dials from another host, in place of Open. Expecting twice is harmless.
	Expect(id spawner.ID) error
	// Close ends the link and removes the socket.
	Close(id spawner.ID)
	// Agent returns the agent of id. Its methods fail while the link is down.
	Agent(id spawner.ID) Agent
}

// Config is what a Manager needs. All fields without a stated default are required.
type Config struct {
	Store Store
	// Full says that the store's disk is full: then nothing new is taken, and what little room is left is for the
	// records of what there is already. Nil: it never is.
	Full     func() error
	Backends []spawner.Backend
	Agents   Agents
	Sealer   Sealer
	// Account returns the account of a hub's user, making it at the first time.
	Account func(ctx context.Context, hub string, user spawner.User) (spawner.Account, error)
	Launch  launch.Config // what starts are made of
	// AnnounceStart tells whoever asked for a start with Spec.EventsURL what happens in it, until it has come to its
	// end, good or bad. It is called once a start, and again after a restart of the service. Nil: nobody is told.
	AnnounceStart func(ctx context.Context, w spawner.Workload, secrets control.Env)
	GPUs          GPUs // nil: this host has none
	// Group says with whom a hub's user shares a GPU that is shared without isolation. Nil: with herself alone.
	Group    func(hub string, user spawner.User) string
	Lend     Lend                        // of idle slices of GPUs to jobs
	Dir      string                      // the workloads' own directories
	Capacity map[string]spawner.Capacity // by backend, and of Host; what is not in it is not limited
	Sessions string                      // the backend of sessions
	// SessionsFirst has no new job of this host given what a session waits for, whoever has asked first.
	SessionsFirst bool
	// RetryPause is how long a job waits before it is tried again by itself for the first time; before each further one
	// three times as long, up to five minutes. Zero: not at all.
	RetryPause time.Duration
	Limits     Limits
	Output     int64 // bytes of a job's output files, in all, that are kept. Zero: 20 GiB
	// Room returns how many bytes of output a directory's disk may take. Nil: what is free of it, but for a rest.
	Room     func(dir string) (int64, error)
	Interval time.Duration // between two looks at every active workload. Zero: 15 s
	Workers  int           // workloads worked on at once. Zero: 64
	// the same of Remotes, beside those: a start there waits for others, to be asked for with them. Zero: 1024
	RemoteWorkers int
	Logger        *slog.Logger
}

// Manager carries out what package lifecycle decides. Its methods are safe for concurrent use. They may be called as
// soon as New has returned; Run makes things happen.
type Manager struct {
	backends.Backends
	deadlines
	links
	*kinds
	cfg        Config
	queue      *workqueue.Queue
	onRemote   *workqueue.Queue // of those of Remotes, which take their turn here after their turn in queue
	log        *slog.Logger
	files      *jobfiles.Store
	accounting accounting.Store
	launches   launch.Maker

	announcements sync.WaitGroup
	ballots       ballots // has a lock of its own

	mu         lock // guards all below, and the entries
	work       map[spawner.ID]*Entry
	index      index
	sched      *sched.Scheduler
	held       map[spawner.ID]int  // bundles that submissions have that are under way
	tombstones jobfiles.Tombstones // of jobs that were removed because their time was over
	first      firstLook
	counters   counters
}

// Entry is one workload with what is known of it while the service runs.
type Entry struct {
	spawner.Workload
	Secrets   control.Env         // until its app has them; nil then, and when their seal cannot be opened
	announced string              // the launch that Config.AnnounceStart tells of
	prepared  bool                // the agent of a standby knows what it is to become
	Begun     bool                // the backend's Start succeeded for this launch
	startedAt time.Time           // when it did; of a Remote, since when it is seen to run there
	fetched   fetched             // how much of its image a Remote has
	Seen      spawner.Observation // by the last look at what a Remote has of it
	blindly   time.Time           // when a Remote was last asked to end it though it was not seen
	// when the agent of a Remote told that the app has exited, and it with that; zero: it has not
	quit       time.Time
	parting    string            // the run whose agent, on another host, has said that it ends
	Collecting time.Time         // since when what its app left is being fetched; zero: it is not
	Hindrance  string            // what keeps what a job has left from being kept here, in words; empty: nothing
	Keeping    Attempts          // at keeping what came back of a run; zero: there was none
	Status     control.Status    // the agent's last word; zero while the link is down
	Pulse      culling.Pulse     // what is known of what goes on in it
	Alerts     journal.Alerts    // what its owner is to know of its limits
	Reported   *control.Progress // what its payload has last said of how far it is; nil: nothing
	Journal    journal.Journal
	abort      context.CancelFunc // ends what is being done and may take long; nil when nothing is
	changed    chan struct{}      // closed and replaced at every change
	LogCopy    chan struct{}      // holds one token while a job's log is being copied here
}

const (
	bucket     = "workloads"
	linkSocket = "service.sock" // in the link directory; the base of control.LinkSocket
)

// New makes a Manager over the records in the store.
func New(ctx context.Context, cfg Config) (*Manager, error) {
	cfg.fill()
	site, err := backends.New(cfg.Backends, cfg.Sessions, cfg.Logger)
	if err != nil {
		return nil, err
	}
	if site.HasRemote() && cfg.Launch.Uplink == nil {
		return nil, errors.New("some backends run workloads on other hosts: Config.Launch.Uplink is needed")
	}
	of := &kinds{of: map[spawner.Kind]*Kind{}}
	m := &Manager{
		Backends: site, cfg: cfg, kinds: of,
		deadlines: deadlines{
			kinds: of, limits: cfg.Limits, born: time.Now(), recall: cfg.Lend.Recall, pause: cfg.RetryPause,
		},
		queue: workqueue.New(), onRemote: workqueue.New(),
		log: cfg.Logger, links: links{make(chan linkChange, 64)},
		work: map[spawner.ID]*Entry{}, index: newIndex(), tombstones: jobfiles.NewTombstones(),
		held:  map[spawner.ID]int{},
		first: firstLook{believed: map[string]bool{}}, counters: newCounters(),
	}
	m.sched = sched.New(m.schedConfig())
	m.accounting = accounting.New(accounting.Config{Store: cfg.Store, Sched: m.sched, Lock: &m.mu, Logger: cfg.Logger})
	m.files = m.newFiles()
	m.launches = launch.Maker{Config: cfg.Launch, GPUs: cfg.GPUs, Grace: cfg.Limits.Grace, Title: m.At}
	return m, m.load(ctx)
}

func (m *Manager) schedConfig() sched.Config {
	c := sched.Config{
		Capacity: m.cfg.Capacity, Remote: m.Remotes(), SessionsFirst: m.cfg.SessionsFirst,
	}
	if m.cfg.GPUs != nil { // an interface that holds nil is not nil
		c.GPUs = m.cfg.GPUs
	}
	if m.cfg.Lend.On && m.cfg.Lend.Idle != nil {
		c.Lends = func(id spawner.ID) bool { return View{m}.lends(id) } // who asks the scheduler holds the lock
	}
	return c
}

func (c *Config) fill() {
	orElse := func(d *time.Duration, otherwise time.Duration) {
		if *d == 0 {
			*d = otherwise
		}
	}
	orElse(&c.Limits.Agent, time.Minute)
	orElse(&c.Limits.BootRemote, 20*time.Minute)
	orElse(&c.Limits.Boot, 3*time.Minute)
	orElse(&c.Limits.Pack, 15*time.Minute)
	orElse(&c.Limits.Grace, 10*time.Second)
	orElse(&c.Interval, 15*time.Second)
	if c.Workers == 0 {
		c.Workers = 64
	}
	if c.RemoteWorkers == 0 {
		c.RemoteWorkers = 1024
	}
}

// load reads the records, and with them the leases.
func (m *Manager) load(ctx context.Context) error {
	if err := m.accounting.Read(ctx); err != nil {
		return err
	}
	ended, err := m.readWorkloads(ctx)
	if err != nil {
		return err
	}
	m.first.blank = len(m.work) == 0
	m.sched.LearnReleases(ended)
	tx := m.Begin()
	defer tx.End()
	return tx.dispute(ctx)
}

// readWorkloads takes the records into memory. It returns what has ended on this host.
func (m *Manager) readWorkloads(ctx context.Context) (ended []spawner.Workload, err error) {
	tx := m.Begin()
	defer tx.End()
	for r, err := range m.cfg.Store.All(ctx, bucket) {
		if err != nil {
			return nil, fmt.Errorf("read the workloads: %w", err)
		}
		var w spawner.Workload
		if err := json.Unmarshal(r.Value, &w); err != nil {
			return nil, fmt.Errorf("read workload %s: %w", r.Key, err)
		}
		tx.recall(tx.admit(w))
		m.first.newest = clock.Latest(m.first.newest, w.Since)
		if w.Outcome != nil && !w.Up.IsZero() && !w.Remote {
			ended = append(ended, w)
		}
	}
	return ended, nil
}

func NewEntry(w spawner.Workload) *Entry {
	return &Entry{Workload: w, changed: make(chan struct{}), LogCopy: make(chan struct{}, 1)}
}

// admit takes a workload into memory.
func (tx Tx) admit(w spawner.Workload) *Entry {
	e := NewEntry(w)
	e.Secrets = tx.m.unseal(w)
	tx.m.work[w.ID] = e
	tx.book(spawner.Workload{}, e)
	return e
}

// book makes the index and the scheduler agree with a workload, which was before until now. It reports whether
// somebody who waits may go now.
func (tx Tx) book(before spawner.Workload, e *Entry) (wake bool) {
	tx.m.index.put(before, e)
	look, wake := tx.m.sched.Put(before, &e.Workload, time.Now())
	for _, id := range look {
		tx.m.queue.Add(id)
	}
	return wake
}

// Changed returns what closes at the next change of a workload.
func (e *Entry) Changed() <-chan struct{} { return e.changed }

// Run looks after all workloads until ctx ends. It returns when everything it started has ended; sessions and jobs run
// on.
func (m *Manager) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for range m.cfg.Workers {
		g.Go(func() error { m.labour(ctx); return nil })
	}
	if m.HasRemote() {
		for range m.cfg.RemoteWorkers {
			g.Go(func() error { m.workRemote(ctx); return nil })
		}
	}
	g.Go(func() error {
		m.follow(ctx, m.followAgent, func(ctx context.Context, id spawner.ID) { m.hear(ctx, id, control.Status{}) })
		return nil
	})
	g.Go(func() error { m.resync(ctx); return nil })
	g.Go(func() error { m.accounting.Run(ctx); return nil })
	g.Go(func() error { m.files.MeasureAll(ctx); return nil })
	for _, k := range m.kinds.all {
		if k.Run != nil {
			g.Go(func() error { k.Run(ctx); return nil })
		}
	}
	err := g.Wait()
	m.announcements.Wait()
	m.queue.Stop()
	return err
}

// labour works on one workload after the other. It hands on those of Remotes, whose calls take long: nobody else is to
// wait for them.
func (m *Manager) labour(ctx context.Context) {
	for {
		id, ok := m.queue.Get(ctx)
		if !ok {
			return
		}
		if e, _ := m.Snapshot(id); e.Remote && m.HasRemote() {
			m.onRemote.Add(id)
		} else {
			m.reconcile(ctx, id)
		}
		m.queue.Done(id)
	}
}

// workRemote works on one workload of a Remote after the other.
func (m *Manager) workRemote(ctx context.Context) {
	for {
		id, ok := m.onRemote.Get(ctx)
		if !ok {
			return
		}
		m.reconcile(ctx, id)
		m.onRemote.Done(id)
	}
}

// Wake asks for a look at a workload now; backends that hear of changes call it.
func (m *Manager) Wake(id spawner.ID) { m.queue.Add(id) }

// Ready tells why the Manager cannot answer for its workloads yet; nil when it can.
func (m *Manager) Ready() error {
	v := m.View()
	defer v.End()
	switch {
	case !m.first.ready:
		return errs.New(errs.Unavailable, "the service is still looking at what runs").
			With("try again in a few seconds")
	case m.first.lost > 0:
		return errs.New(
			errs.Unavailable, "the service has lost its records: %d sessions and jobs run that it knows nothing of",
			m.first.lost,
		).With("the administrator restores the records, or stops what runs; see deploy/docs/book/run/keeping.md")
	default:
		return nil
	}
}

// NewID makes an ID of a kind.
func NewID(k spawner.Kind) spawner.ID {
	prefix := spawner.ID("s-")
	if k.Batch() {
		prefix = "j-"
	}
	return prefix + spawner.ID(strings.ToLower(rand.Text()[:16]))
}

// Change saves a change of a workload and makes it known. The change is refused (false) when the workload is gone or
// its record is not as in e any more: what was decided on an older record does not overrule a newer one. Nothing
// changes when it cannot be saved.
func (m *Manager) Change(ctx context.Context, e Entry, edit func(*Entry)) (bool, error) {
	tx := m.Begin()
	defer tx.End()
	now := tx.Unchanged(e)
	if now == nil {
		return false, nil
	}
	return true, tx.Change(ctx, now, edit)
}

// Change saves a change, and makes it in memory when that is done. Readers go on meanwhile; see lock.
func (tx Tx) Change(ctx context.Context, e *Entry, edit func(*Entry)) error {
	return tx.save(ctx, []change{e.change(edit)})
}

// ChangeAll is Change of some different workloads: all or none.
func (tx Tx) ChangeAll(ctx context.Context, list []*Entry, edit func(*Entry)) error {
	changes := make([]change, len(list))
	for i, e := range list {
		changes[i] = e.change(edit)
	}
	return tx.save(ctx, changes)
}

// change returns a change of e that is decided.
func (e *Entry) change(edit func(*Entry)) change {
	next := *e
	edit(&next)
	next.Rev++
	if next.Phase != e.Phase {
		next.Since = time.Now()
	}
	return change{e, edit, next.Workload}
}

// apply makes a change that was saved. What else is known of the workload may have changed with others that were
// saved with it.
func (tx Tx) apply(c change) {
	e, next, before := c.e, *c.e, c.e.Workload
	c.edit(&next)
	next.Workload = c.w
	if tx.m.work[e.ID] == nil {
		before = spawner.Workload{}
	}
	if e.Phase != next.Phase {
		tx.m.log.Info(
			"workload", "id", e.ID, "hub", e.Hub, "owner", e.Owner, "from", e.Phase, "to", next.Phase, "want",
			next.Want,
		)
	}
	*e = next
	tx.entered(before, e)
}

// entered makes a change that was saved known: of a workload that was before until now, and the zero Workload if
// it is new.
func (tx Tx) entered(before spawner.Workload, e *Entry) {
	tx.m.work[e.ID] = e
	wake := tx.book(before, e)
	tx.Announce(e)
	if tx.m.queue.Add(e.ID); wake {
		tx.wakeHeads()
	}
}

// Announce lets all that wait on a workload look again.
func (tx Tx) Announce(e *Entry) {
	close(e.changed)
	e.changed = make(chan struct{})
}

// wakeHeads has a look at whoever is next in a line: room of one kind may be what another line waits for.
func (v View) wakeHeads() {
	for _, id := range v.m.sched.Heads() {
		v.m.queue.Add(id)
	}
}

// Note writes an event into a workload's journal.
func (tx Tx) Note(e *Entry, ev spawner.Event) {
	ev.Launch = e.Launch
	if ev.Time.IsZero() {
		ev.Time = time.Now()
	}
	e.Journal.Note(ev)
	tx.Announce(e)
}

func (m *Manager) note(id spawner.ID, ev spawner.Event) {
	tx := m.Begin()
	defer tx.End()
	if e := m.work[id]; e != nil {
		tx.Note(e, ev)
	}
}
