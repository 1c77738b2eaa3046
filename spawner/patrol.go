package spawner

import (
	"context"
	"os"
	"time"
)

// patrol looks at everything from time to time: first of all at what an earlier run of the service left.
func (m *Manager) patrol(ctx context.Context) {
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

// ids gives the workloads that a look may change. One at rest is looked at when somebody wants something of it, or its backend
// says that it has changed.
func (m *Manager) ids() []ID {
	m.mu.Lock()
	defer m.mu.Unlock()
	var ids []ID
	for id, e := range m.work {
		if e.Phase != Stopped || e.Want != WantStopped || !m.ready {
			ids = append(ids, id)
		}
	}
	return ids
}

// reap ends what runs without a record, when it was there at the last look too (a workload just forgotten is not a stranger).
// Every workload is recorded before anything is started for it, so a stranger means that records were lost: what it runs holds
// resources that nobody leased, and is stopped. A job's remains are removed; a session's are kept, for they may be somebody's
// work, and the administrator is told.
func (m *Manager) reap(ctx context.Context, before map[ID]bool) map[ID]bool {
	now := map[ID]bool{}
	for name, b := range m.backends {
		found, err := m.list(ctx, b)
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

// list asks a backend, for half a minute at most: one that does not answer must not keep the others from being looked at.
func (m *Manager) list(ctx context.Context, b Backend) ([]ID, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return b.List(ctx)
}

func (m *Manager) reapOne(ctx context.Context, b Backend, id ID) {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.Limits.Grace+backendPatience)
	defer cancel()
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
