package docker

import (
	"context"
	"errors"
	"time"

	"github.com/moby/moby/api/types/events"
	"github.com/moby/moby/client"

	"slipway/internal/backoff"
	"slipway/internal/clock"
	"slipway/spawner"
)

// Watch waits firstPause before it asks an engine anew that broke off, then twice as long each time, up to lastPause:
// an engine that is down for a night must not fill the log.
const (
	firstPause = time.Second
	lastPause  = time.Minute
)

// Watch calls changed for every workload whose container changes, until ctx ends. When the engine breaks off it is
// asked anew, and then everything may have changed. Watch makes looking cheap, not needless: what it misses, a later
// look finds.
func (b *Backend) Watch(ctx context.Context, changed func(spawner.ID)) error {
	b.recover(ctx)
	b.clearUp(ctx)
	if _, err := b.ensureNetwork(ctx); err != nil && ctx.Err() == nil {
		b.log.Warn("cannot make the network of sessions; the next start tries again", "error", err)
	}
	failed := backoff.Backoff{First: firstPause, Most: lastPause}
	for first := true; ; first = false {
		began := time.Now()
		err := b.follow(ctx, first, changed)
		if ctx.Err() != nil {
			return nil
		}
		b.left(time.Now())
		if time.Since(began) > lastPause {
			failed.Reset()
		}
		pause := failed.Next()
		b.log.Warn("the engine's events broke off", "again_in", pause, "error", err)
		if !clock.Sleep(ctx, pause) {
			return nil
		}
	}
}

// recover wakes the containers that a service left paused when it was killed in a freeze. It is done once, before this
// service freezes anything, and as long as it takes: a session must not sleep for ever.
func (b *Backend) recover(ctx context.Context) {
	for failed := (backoff.Backoff{First: firstPause, Most: lastPause}); ; {
		err := b.wakePaused(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		b.left(time.Now())
		pause := failed.Next()
		b.log.Warn("cannot look for sessions that a freeze left asleep", "again_in", pause, "error", err)
		if !clock.Sleep(ctx, pause) {
			return
		}
	}
}

// clearUp removes what a service left that was killed while it fetched a tree. When one is being fetched, that was done
// already.
func (b *Backend) clearUp(ctx context.Context) {
	if !b.trees.TryLock() {
		return
	}
	defer b.trees.Unlock()
	if err := errors.Join(b.sweepImages(ctx), b.sweepThawedLocked(ctx)); err != nil && ctx.Err() == nil {
		b.log.Warn("cannot remove what an earlier freeze left; the next one tries again", "error", err)
	}
}

func (b *Backend) wakePaused(ctx context.Context) error {
	list, err := b.client.ContainerList(
		ctx, client.ContainerListOptions{All: true, Filters: b.ours().Add("status", "paused")},
	)
	if err != nil {
		return b.explain(err, "list the paused containers")
	}
	for _, c := range list.Items {
		id := spawner.ID(c.Labels[labelID])
		b.log.Warn("waking a session that a freeze left asleep", "id", id)
		if err := b.unpause(ctx, id, c.ID); err != nil && !gone(err) {
			return err
		}
	}
	return nil
}

// follow reads one stream of events to its end.
func (b *Backend) follow(ctx context.Context, first bool, changed func(spawner.ID)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream := b.client.Events(
		ctx, client.EventsListOptions{Filters: b.ours().Add("type", string(events.ContainerEventType))},
	)
	b.catchUp(ctx, first, changed)
	for {
		select {
		case m := <-stream.Messages:
			if id := m.Actor.Attributes[labelID]; id != "" && tells(m.Action) {
				changed(spawner.ID(id))
			}
		case err := <-stream.Err:
			return b.explain(err, "follow the engine's events")
		}
	}
}

// catchUp makes up for the events that were missed.
func (b *Backend) catchUp(ctx context.Context, first bool, changed func(spawner.ID)) {
	seen, err := b.List(ctx)
	if err != nil {
		// the stream's end tells the same
		b.log.Debug("what changed while the engine was away is not known yet", "error", err)
		return
	}
	b.returned(time.Now())
	for id := range seen {
		if !first {
			changed(id)
		}
	}
}

// tells reports whether an event changes what Observe sees.
func tells(a events.Action) bool {
	switch a {
	case events.ActionStart, events.ActionDie, events.ActionOOM, events.ActionPause, events.ActionUnPause, events.ActionDestroy:
		return true
	default:
		return false
	}
}
