package spawner

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// patrol takes up what an earlier run of the service left, then looks at everything from time to time.
func (m *Manager) patrol(ctx context.Context) {
	m.resume(ctx)
	strangers := map[ID]bool{}
	for {
		for _, id := range m.ids() {
			m.queue.add(id)
		}
		strangers = m.reap(ctx, strangers)
		m.mu.Lock()
		m.ready = true
		m.mu.Unlock()
		if pause(ctx, m.cfg.Interval); ctx.Err() != nil {
			return
		}
	}
}

func (m *Manager) ids() []ID {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.work))
}

// resume listens again for the agents of all workloads that may run.
func (m *Manager) resume(ctx context.Context) {
	for _, id := range m.ids() {
		e, ok := m.snapshot(id)
		if !ok || !e.Phase.Active() || e.Phase == Pending || e.Phase == Leased {
			continue
		}
		account, err := m.cfg.Account(ctx, e.Owner)
		if err == nil {
			err = m.cfg.Agents.Open(id, filepath.Join(m.dir(id), "link", linkSocket), account.UID)
		}
		if err != nil {
			m.log.Error("cannot listen for an agent", "id", id, "err", err)
		}
	}
}

// reap ends what runs without a record, when it was there at the last look too (a workload just forgotten is not a stranger).
// Every workload is recorded before anything is started for it, so a stranger means that records were lost: what it runs holds
// resources that nobody leased, and is stopped. A job's remains are removed; a session's are kept, for they may be somebody's
// work, and the administrator is told.
func (m *Manager) reap(ctx context.Context, before map[ID]bool) map[ID]bool {
	now := map[ID]bool{}
	for name, b := range m.backends {
		found, err := b.List(ctx)
		if err != nil {
			m.log.Warn("cannot list what a backend holds", "backend", name, "err", err)
			continue
		}
		for _, id := range found {
			if _, known := m.snapshot(id); known {
				continue
			}
			now[id] = true
			if before[id] {
				m.reapOne(ctx, b, id)
			}
		}
	}
	m.reapDirs(before, now)
	m.mu.Lock()
	m.orphans = len(now)
	m.mu.Unlock()
	return now
}

func (m *Manager) reapOne(ctx context.Context, b Backend, id ID) {
	o, err := b.Observe(ctx, id)
	if err == nil && o.Existence == Up {
		m.log.Warn("stopping what runs without a record", "backend", b.Name(), "id", id)
		err = b.Stop(ctx, id, m.cfg.Limits.Grace)
	}
	if err == nil && (kindOf(id) == Job || o.Existence == Created) {
		m.log.Warn("removing what was left without a record", "backend", b.Name(), "id", id)
		err = b.Remove(ctx, id)
	}
	if err != nil {
		m.log.Warn("cannot reap", "backend", b.Name(), "id", id, "err", err)
	}
}

// reapDirs removes directories of workloads that neither the records nor a backend know, at the second look.
func (m *Manager) reapDirs(before, now map[ID]bool) {
	entries, err := os.ReadDir(m.cfg.Dir)
	if err != nil {
		return // made at the first start
	}
	for _, e := range entries {
		id := ID(e.Name())
		if _, known := m.snapshot(id); known || now[id] {
			continue
		}
		now[id] = true
		info, err := e.Info()
		if err == nil && before[id] && time.Since(info.ModTime()) > time.Minute {
			m.log.Warn("removing a directory without a record", "id", id)
			err = os.RemoveAll(m.dir(id))
		}
		if err != nil {
			m.log.Warn("cannot reap a directory", "id", id, "err", err)
		}
	}
}
