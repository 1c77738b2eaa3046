// Package engine keeps workloads (sessions, jobs and kernels) in the state that their owners want. It is the one owner
// of their records.
//
// Promises: a workload is saved before anything is done for it; its resources are leased before it starts and given
// back only when it was seen gone; what a killed service left is found again by the workload's ID and adopted; a
// stopped session keeps its changes. Who may see or change a workload is decided here, in the methods that take a
// caller, and nowhere else.
//
// Records are what is known of workloads, with the one lock: they are changed through a Tx or an Update alone. The
// Manager looks at one workload after the other and asks package lifecycle what is to be done next; its parts do that:
// the starter, the stager, the terminator, the agentLinks and the resyncer. What is particular to sessions, jobs and
// kernels is in packages above this one, which are asked through Kind. The package must not import a backend, and knows
// nothing of images beyond their names, nor of HTTP.
package engine

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"slipway/internal/agent/control"
	"slipway/spawner"
	"slipway/spawner/accounting"
	"slipway/spawner/backends"
	"slipway/spawner/launch"
	"slipway/spawner/workqueue"
)

// Manager has what package lifecycle decides carried out. Its methods are safe for concurrent use. They may be called
// as soon as New has returned; Run makes things happen.
type Manager struct {
	*Records
	backends.Backends
	*deadlines
	*agentLinks
	*terminator
	*resyncer
	starter    *starter
	stager     *stager
	cfg        Config
	onRemote   *workqueue.Queue // of those of Remotes, which take their turn here after their turn in queue
	accounting accounting.Store
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
	files := newFiles(cfg, records)
	limits := &deadlines{
		kind: records.Kind, limits: cfg.Limits, born: time.Now(), recall: cfg.Lend.Recall,
	}
	links := &agentLinks{
		Records: records, agents: cfg.Agents, accounts: cfg.Account, files: files, changes: make(chan linkChange, 64),
	}
	m := &Manager{
		Records: records, Backends: site, deadlines: limits, agentLinks: links,
		terminator: &terminator{
			Records: records, deadlines: limits, agents: cfg.Agents, files: files, gpus: cfg.GPUs,
			storage: cfg.Launch.Storage, interval: cfg.Interval,
		},
		resyncer: &resyncer{
			Records: records, files: files, full: cfg.Full, interval: cfg.Interval, grace: cfg.Limits.Grace,
			believed: map[string]bool{},
		},
		starter: &starter{
			Records: records, links: links, accounts: cfg.Account, files: files, gpus: cfg.GPUs,
			announce: cfg.AnnounceStart,
			launches: launch.Maker{Config: cfg.Launch, GPUs: cfg.GPUs, Grace: cfg.Limits.Grace, Title: site.At},
		},
		stager: &stager{Records: records, agents: cfg.Agents, limits: cfg.Limits, interval: cfg.Interval},
		cfg:    cfg, onRemote: workqueue.New(),
		accounting: accounting.New(accounting.Config{
			Store: cfg.Store, Sched: records.sched, Lock: &records.mu, Logger: cfg.Logger,
		}),
	}
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
	m.blank = len(m.work) == 0
	m.sched.LearnCompletions(ended)
	tx := m.Begin()
	defer tx.End()
	return tx.dispute(ctx)
}

// Run looks after all workloads until ctx ends. It returns when everything it started has ended; sessions and jobs run
// on.
func (m *Manager) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for range m.cfg.Workers.Local {
		g.Go(func() error { m.labour(ctx); return nil })
	}
	if m.HasRemote() {
		for range m.cfg.Workers.Remotes {
			g.Go(func() error { m.workRemote(ctx); return nil })
		}
	}
	g.Go(func() error {
		m.follow(ctx, m.followAgent, func(ctx context.Context, id spawner.ID) { m.hear(ctx, id, control.Status{}) })
		return nil
	})
	g.Go(func() error { m.resync(ctx); return nil })
	g.Go(func() error { m.accounting.Run(ctx); return nil })
	g.Go(func() error { m.starter.files.MeasureAll(ctx); return nil })
	for _, k := range m.all {
		if k.Run != nil {
			g.Go(func() error { k.Run(ctx); return nil })
		}
	}
	err := g.Wait()
	m.starter.announcements.Wait()
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
		if e, _ := m.Snapshot(id); m.IsRemote(e.Backend) {
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
