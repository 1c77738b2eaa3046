package engine

import (
	"context"
	"encoding/json"
	"fmt"
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

// usageStore keeps what users have had over restarts of the service.
type usageStore struct {
	store Store
	sched *sched.Scheduler
	lock  sync.Locker // guards sched
	log   *slog.Logger
}

// read reads what users have had in earlier runs of the service.
func (u *usageStore) read(ctx context.Context) error {
	now := time.Now()
	for r, err := range u.store.All(ctx, tallies) {
		if err != nil {
			return fmt.Errorf("read what users have had: %w", err)
		}
		var had sched.Usage
		if err := json.Unmarshal(r.Value, &had); err != nil {
			u.log.Warn("what a user has had cannot be read, and counts no more", "user", r.Key, "err", err)
			continue
		}
		u.sched.Restore(had, now)
	}
	return nil
}

// run counts and saves what users have, from time to time until ctx ends.
func (u *usageStore) run(ctx context.Context) {
	for {
		u.save(context.WithoutCancel(ctx))
		if ctx.Err() != nil {
			return
		}
		clock.Sleep(ctx, saveUsageEvery)
	}
}

func (u *usageStore) save(ctx context.Context) {
	u.lock.Lock()
	counted := u.sched.Count(time.Now())
	u.lock.Unlock()
	if len(counted) == 0 {
		return
	}
	values := make(map[string]any, len(counted))
	for o, had := range counted {
		values[o.Key()] = had
	}
	if err := u.store.PutAll(ctx, tallies, values); err != nil {
		u.log.Warn("what users have had cannot be saved now; it is tried again", "err", err)
		u.lock.Lock()
		defer u.lock.Unlock()
		for o := range counted {
			u.sched.Unsaved(o)
		}
	}
}
