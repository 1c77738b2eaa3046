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
	"errors"
	"io"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/accounting"
	"slipway/spawner/backends"
	"slipway/spawner/jobfiles"
	"slipway/spawner/launch"
	"slipway/spawner/workqueue"
)

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

// Manager carries out what package lifecycle decides. Its methods are safe for concurrent use. They may be called as
// soon as New has returned; Run makes things happen.
type Manager struct {
	*Records
	backends.Backends
	deadlines
	links
	cfg        Config
	onRemote   *workqueue.Queue // of those of Remotes, which take their turn here after their turn in queue
	files      *jobfiles.Store
	accounting accounting.Store
	launches   launch.Maker

	announcements sync.WaitGroup
	first         firstLook // guarded by the lock of Records
}

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
	records := newRecords(cfg, site)
	m := &Manager{
		Records: records, Backends: site, cfg: cfg,
		deadlines: deadlines{
			kind: records.Kind, limits: cfg.Limits, born: time.Now(), recall: cfg.Lend.Recall, pause: cfg.RetryPause,
		},
		onRemote: workqueue.New(), links: links{make(chan linkChange, 64)},
		first: firstLook{believed: map[string]bool{}},
	}
	m.accounting = accounting.New(accounting.Config{Store: cfg.Store, Sched: m.sched, Lock: &m.mu, Logger: cfg.Logger})
	m.files = m.newFiles()
	m.launches = launch.Maker{Config: cfg.Launch, GPUs: cfg.GPUs, Grace: cfg.Limits.Grace, Title: m.At}
	return m, m.load(ctx)
}

// load reads the records, and with them the leases.
func (m *Manager) load(ctx context.Context) error {
	if err := m.accounting.Read(ctx); err != nil {
		return err
	}
	ended, err := m.read(ctx)
	if err != nil {
		return err
	}
	m.first.blank = len(m.work) == 0
	m.sched.LearnReleases(ended)
	tx := m.Begin()
	defer tx.End()
	return tx.dispute(ctx)
}

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
	for _, k := range m.all {
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
