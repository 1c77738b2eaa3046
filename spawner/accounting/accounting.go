// Package accounting keeps what users have had of a site over restarts of the service: GPU hours, and what their fair share
// goes by.
//
// Promises: a service that is killed loses a minute of it at most. What a user has had is counted by the scheduler; the
// package must not judge it.
package accounting

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"

	"slipway/internal/clock"
	"slipway/spawner/sched"
)

// tallies is the store's bucket of what users have had.
const tallies = "tallies"

// saveUsageEvery is how often it is counted and saved: a service that is killed loses so much of it at most.
const saveUsageEvery = time.Minute

// Config is what a Store needs.
type Config struct {
	Store interface {
		All(ctx context.Context, bucket string) iter.Seq2[Record, error]
		PutAll(ctx context.Context, bucket string, values map[string]any) error
	}
	Sched  *sched.Scheduler
	Lock   sync.Locker // guards Sched
	Logger *slog.Logger
}

// Record is one key and its JSON value.
type Record = struct {
	Key   string
	Value json.RawMessage
}

// Store keeps what users have had.
type Store struct{ cfg Config }

// New returns a Store.
func New(cfg Config) Store { return Store{cfg} }

// Read takes into the scheduler what users have had in earlier runs of the service.
func (s *Store) Read(ctx context.Context) error {
	now := time.Now()
	for r, err := range s.cfg.Store.All(ctx, tallies) {
		if err != nil {
			return fmt.Errorf("read what users have had: %w", err)
		}
		var had sched.Usage
		if err := json.Unmarshal(r.Value, &had); err != nil {
			s.cfg.Logger.Warn("what a user has had cannot be read, and counts no more", "user", r.Key, "err", err)
			continue
		}
		s.cfg.Sched.Restore(had, now)
	}
	return nil
}

// Run counts and saves what users have, from time to time until ctx ends.
func (s *Store) Run(ctx context.Context) {
	for {
		s.save(context.WithoutCancel(ctx))
		if ctx.Err() != nil {
			return
		}
		clock.Sleep(ctx, saveUsageEvery)
	}
}

func (s *Store) save(ctx context.Context) {
	s.cfg.Lock.Lock()
	counted := s.cfg.Sched.Count(time.Now())
	s.cfg.Lock.Unlock()
	if len(counted) == 0 {
		return
	}
	values := make(map[string]any, len(counted))
	for o, had := range counted {
		values[o.Key()] = had
	}
	if err := s.cfg.Store.PutAll(ctx, tallies, values); err != nil {
		s.cfg.Logger.Warn("what users have had cannot be saved now; it is tried again", "err", err)
		s.cfg.Lock.Lock()
		defer s.cfg.Lock.Unlock()
		for o := range counted {
			s.cfg.Sched.Unsaved(o)
		}
	}
}
