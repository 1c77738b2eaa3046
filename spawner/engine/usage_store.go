package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"slipway/internal/clock"
	"slipway/spawner/sched"
)

// tallies is the store's bucket of what users have had.
const tallies = "tallies"

// saveUsageEvery is how often it is counted and saved: a service that is killed loses so much of it at most.
const saveUsageEvery = time.Minute

// readTallies reads what users have had in earlier runs of the service.
func (m *Manager) readTallies(ctx context.Context) error {
	now := time.Now()
	for r, err := range m.cfg.Store.All(ctx, tallies) {
		if err != nil {
			return fmt.Errorf("read what users have had: %w", err)
		}
		var u sched.Usage
		if err := json.Unmarshal(r.Value, &u); err != nil {
			m.log.Warn("what a user has had cannot be read, and counts no more", "user", r.Key, "err", err)
			continue
		}
		m.sched.Restore(u, now)
	}
	return nil
}

// saveUsage counts and saves what users have, from time to time until ctx ends.
func (m *Manager) saveUsage(ctx context.Context) {
	for {
		m.relearn()
		m.saveTallies(context.WithoutCancel(ctx))
		if ctx.Err() != nil {
			return
		}
		clock.Sleep(ctx, saveUsageEvery)
	}
}

func (m *Manager) saveTallies(ctx context.Context) {
	tx := m.Begin()
	counted := m.sched.Count(time.Now())
	tx.End()
	if len(counted) == 0 {
		return
	}
	values := make(map[string]any, len(counted))
	for o, u := range counted {
		values[o.Key()] = u
	}
	if err := m.cfg.Store.PutAll(ctx, tallies, values); err != nil {
		m.log.Warn("what users have had cannot be saved now; it is tried again", "err", err)
		tx := m.Begin()
		defer tx.End()
		for o := range counted {
			m.sched.Unsaved(o)
		}
	}
}

// turnShares has who waits stand in the order of what users have had until now, and looks at who is next in it.
func (m *Manager) turnShares() {
	tx := m.Begin()
	defer tx.End()
	m.sched.Tick(time.Now())
	tx.wakeHeads()
}
