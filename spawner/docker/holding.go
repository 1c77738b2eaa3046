package docker

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/moby/moby/client"

	"slipway/internal/clock"
	"slipway/internal/errs"
	"slipway/spawner"
)

// mostStill is how long a session may be held still, whatever the freeze does that asked for it.
const mostStill = 30 * time.Second

// holding is one container that is being kept still while its changes are copied.
type holding struct {
	b     *Backend
	id    spawner.ID
	held  bool
	began string // when the container's present run began
	ran   bool   // whether it ran at all: a stopped one is still by itself
	limit time.Duration
	watch *time.Timer // lets it go after limit; nil: it was never held
	late  atomic.Bool // it was let go like that
	waker waker       // lets it go when this process dies
}

// pause holds the container still.
func (h *holding) pause(ctx context.Context) error {
	c, found, err := h.b.find(ctx, h.id)
	if err != nil || !found {
		return err
	}
	h.held, h.began, h.ran = true, c.State.StartedAt, c.State.Running
	if !c.State.Running || c.State.Paused {
		return nil
	}
	h.guard(context.WithoutCancel(ctx), c.ID)
	h.waker.start(h.b, c.ID)
	if err := h.b.freezeProcesses(ctx, c.ID); err != nil {
		return h.b.explain(err, "pause %s", h.id)
	}
	return nil
}

// tooBusy is what runc says when the processes of a control group of version 1 are not all still after its many looks.
// It lets them go on then. On a machine under load that happens to a container in which nothing is wrong.
const tooBusy = "unable to freeze"

// freezeProcesses pauses a container, and tries it three times more within two seconds when its processes are too busy.
func (b *Backend) freezeProcesses(ctx context.Context, container string) error {
	for wait := 250 * time.Millisecond; ; wait *= 2 {
		_, err := b.client.ContainerPause(ctx, container, client.ContainerPauseOptions{})
		if err == nil || !strings.Contains(err.Error(), tooBusy) || wait > time.Second || !clock.Sleep(ctx, wait) {
			return err
		}
	}
}

// guard lets the container go on by itself when nobody else does. It is set before the container is paused, for the
// answer to that may be lost.
func (h *holding) guard(ctx context.Context, container string) {
	if h.watch != nil {
		h.watch.Stop()
	}
	h.late.Store(false)
	h.watch = time.AfterFunc(h.limit, func() {
		h.late.Store(true)
		h.b.log.Warn("a freeze holds a session still for too long; it goes on", "id", h.id, "after", h.limit)
		ctx, cancel := context.WithTimeout(ctx, hurry)
		defer cancel()
		if _, err := h.b.client.ContainerUnpause(ctx, container, client.ContainerUnpauseOptions{}); err != nil && !gone(err) {
			h.b.log.Warn("cannot wake a session that a freeze left asleep", "id", h.id, "error", err)
		}
	})
}

// resume lets the container go on. It is an error when the container was not still all the time since pause: what was
// copied meanwhile may be half of one state and half of another.
func (h *holding) resume(ctx context.Context) error {
	c, found, err := h.b.find(ctx, h.id)
	if err != nil {
		return err // h.watch goes on
	}
	still := found && c.State.StartedAt == h.began && c.State.Running == h.ran && c.State.Paused == h.ran
	if found && c.State.Running && c.State.Paused {
		if err := h.b.unpause(ctx, h.id, c.ID); err != nil {
			if now, there, lost := h.b.find(ctx, h.id); lost != nil || there && now.State.Paused {
				return err
			}
			still = false // it came to its end between the look and the call
		}
	}
	if h.watch != nil {
		h.watch.Stop()
	}
	h.waker.stop()
	switch {
	case h.held && h.late.Load():
		err = errs.New(
			errs.Conflict, "session %s was not held still for more than %v, and its freeze was not done by then", h.id,
			h.limit,
		).With("freeze it again when it writes less, or stop it first")
	case h.held && !still:
		err = errs.New(errs.Conflict, "session %s was stopped, started or removed while it was being frozen", h.id).
			With("freeze it again")
	}
	h.held = false
	return err
}
