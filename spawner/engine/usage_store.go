package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"slipway/spawner"
)

// tallies is the store's bucket of what users have had.
const tallies = "tallies"

// saveUsageEvery is how often it is counted and saved: a service that is killed loses so much of it at most.
const saveUsageEvery = time.Minute

// usageRecord is what one user has had, as the store has it.
type usageRecord struct {
	Hub   string             `json:"hub"`
	User  spawner.User       `json:"user"`
	Hours map[int64]float64  `json:"hours,omitempty"` // of GPUs, by the hour of the clock since 1970
	Uses  map[string]float64 `json:"uses,omitempty"`  // of backends, by their names; see shares
	At    time.Time          `json:"at"`              // until when that is counted
}

// readTallies reads what users have had in earlier runs of the service.
func (m *Manager) readTallies(ctx context.Context) error {
	now := time.Now()
	for r, err := range m.cfg.Store.All(ctx, tallies) {
		if err != nil {
			return fmt.Errorf("read what users have had: %w", err)
		}
		var t usageRecord
		if err := json.Unmarshal(r.Value, &t); err != nil {
			m.log.Warn("what a user has had cannot be read, and counts no more", "user", r.Key, "err", err)
			continue
		}
		o := spawner.Principal{Hub: t.Hub, User: t.User}
		if len(t.Hours) > 0 {
			m.hours.of[o] = t.Hours
		}
		if t.At.After(m.hours.at) {
			m.hours.at = t.At
		}
		for backend, use := range t.Uses {
			s := &share{use: use, at: t.At}
			s.settle(now, m.shares.half)
			m.shares.of[client{backend, o, true}] = s
		}
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
		pause(ctx, saveUsageEvery)
	}
}

func (m *Manager) saveTallies(ctx context.Context) {
	values, saved := m.count()
	if len(values) == 0 {
		return
	}
	if err := m.cfg.Store.PutAll(ctx, tallies, values); err != nil {
		m.log.Warn("what users have had cannot be saved now; it is tried again", "err", err)
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, o := range saved {
			m.unsaved[o] = true
		}
	}
}

// count brings all up to now, and gives what is to be saved.
func (m *Manager) count() (values map[string]any, of []spawner.Principal) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.payAllLocked(now)
	m.shares.tick(now)
	for c, s := range m.shares.of {
		if s.count > 0 {
			m.unsaved[c.of] = true
		}
	}
	values = map[string]any{}
	for o := range m.unsaved {
		values[o.Key()] = m.usageLocked(o, now)
		of = append(of, o)
	}
	clear(m.unsaved)
	return values, of
}

func (m *Manager) usageLocked(o spawner.Principal, now time.Time) usageRecord {
	t := usageRecord{Hub: o.Hub, User: o.User, Hours: map[int64]float64{}, Uses: map[string]float64{}, At: now}
	for hour, n := range m.hours.of[o] {
		t.Hours[hour] = n
	}
	for name := range m.backends {
		if s := m.shares.of[client{name, o, true}]; s != nil && s.use > 0 {
			t.Uses[name] = s.use
		}
	}
	return t
}

// turnShares has who waits stand in the order of what users have had until now, and looks at who is next in it.
func (m *Manager) turnShares() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shares.tick(time.Now())
	m.wakeHeadsLocked()
}
