package docker

import (
	"context"
	"fmt"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"slipway/internal/errs"
	"slipway/internal/memsize"
	"slipway/spawner"
)

// Start brings a workload's container up: makes it, starts a kept one again, or adopts a running one.
func (b *Backend) Start(ctx context.Context, l spawner.Launch) error {
	if err := valid(l); err != nil {
		return err
	}
	c, found, err := b.named(ctx, l.ID)
	switch {
	case err != nil:
		return err
	case found && !b.owns(c, l.ID):
		return stranger(l.ID)
	case found && c.State.Paused:
		return b.unpause(ctx, l.ID, c.ID)
	case found && c.State.Running:
		return nil
	case found:
		c, err = b.renew(ctx, l, c)
	default:
		c, err = b.create(ctx, l)
	}
	if err != nil {
		return err
	}
	return b.run(ctx, l, c)
}

// leastMemory is the engine's own lower bound.
const leastMemory = 6 << 20

// valid refuses limits that are none, before the engine takes them for "no limit", and names that would forge a line of
// /etc/passwd.
func valid(l spawner.Launch) error {
	switch r := l.Spec.Resources; {
	case r.Memory < leastMemory:
		return errs.Bad("memory", memsize.Format(r.Memory), "at least 6M")
	case r.CPUs < 0.01:
		return errs.Bad("cpus", r.CPUs, "at least 0.01")
	case l.Spec.Image == "":
		return errs.Bad("image", "", "the name of an image of the engine")
	}
	return validAccount(l.Account)
}

func stranger(id spawner.ID) error {
	return errs.New(errs.Conflict, "start %s: a container named %s is there that this service did not make", id, nameOf(id)).
		With("see whose it is with `docker inspect " + nameOf(id) + "`")
}

// unpause wakes what a killed freeze left asleep.
func (b *Backend) unpause(ctx context.Context, id spawner.ID, container string) error {
	if _, err := b.client.ContainerUnpause(ctx, container, client.ContainerUnpauseOptions{}); err != nil {
		return b.explain(err, "unpause %s", id)
	}
	return nil
}

// create makes the container of a workload that has none.
func (b *Backend) create(ctx context.Context, l spawner.Launch) (container.InspectResponse, error) {
	var none container.InspectResponse
	image, err := b.image(ctx, l)
	if err != nil {
		return none, err
	}
	if err := checkSources(b.cfg.Mounts); err != nil {
		return none, err
	}
	// The engine wants the files that it is to bind at once.
	if err := b.writeAccounts(ctx, l, image); err != nil {
		return none, err
	}
	if err := b.order(ctx, l); err != nil {
		return none, err
	}
	c, found, err := b.named(ctx, l.ID)
	switch {
	case err != nil:
		return none, err
	case !found:
		return none, errs.New(errs.Unavailable, "start %s: its container vanished as soon as it was made", l.ID)
	case !b.owns(c, l.ID):
		return none, stranger(l.ID)
	}
	return c, nil
}

// order asks the engine for the container. It is not broken off when ctx ends: the engine would go on by itself, and the next
// start would meet half a container. A container of the name is no error here; whose it is decides the caller.
func (b *Backend) order(ctx context.Context, l spawner.Launch) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("start %s: %w", l.ID, err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hurry)
	defer cancel()
	r, err := b.client.ContainerCreate(ctx, b.options(l))
	if err != nil && !cerrdefs.IsConflict(err) {
		return b.explain(err, "create the container of %s", l.ID)
	}
	for _, w := range r.Warnings {
		b.log.Warn("the engine warns about a new container", "workload", l.ID, "warning", w)
	}
	return nil
}

// renew prepares a kept container for another run: with the limits of this launch. Its image stays, for the changes lie on it.
func (b *Backend) renew(ctx context.Context, l spawner.Launch, c container.InspectResponse) (container.InspectResponse, error) {
	if c.Config.Image != l.Spec.Image {
		return b.exchange(ctx, l, c)
	}
	b.compare(ctx, l, c)
	limits := b.limits(l)
	if _, err := b.client.ContainerUpdate(ctx, c.ID, client.ContainerUpdateOptions{Resources: &limits}); err != nil {
		return c, b.explain(err, "give %s its limits", l.ID)
	}
	return c, nil
}

// exchange replaces a container of another image, if it never ran: then it holds no changes.
func (b *Backend) exchange(ctx context.Context, l spawner.Launch, c container.InspectResponse) (container.InspectResponse, error) {
	if c.State.Status != container.StateCreated {
		return c, errs.New(errs.Conflict, "start %s: its kept changes were made on image %s, not on %s", l.ID, c.Config.Image, l.Spec.Image).
			With("start it with image " + c.Config.Image + ", or discard the changes first")
	}
	if err := b.Remove(ctx, l.ID); err != nil {
		return c, err
	}
	return b.create(ctx, l)
}

// compare tells the user when the image's name has come to mean a newer one. That the image is gone does not matter here.
func (b *Backend) compare(ctx context.Context, l spawner.Launch, c container.InspectResponse) {
	now, err := b.client.ImageInspect(ctx, l.Spec.Image)
	if err == nil && now.ID != c.Image {
		l.Report("A newer "+l.Spec.Image+" exists; this session keeps the one that its changes were made on. Discard the changes to get the new one", -1)
	}
}

// run lets a stopped container run. Like order it is not broken off; if ctx has ended meanwhile, the container is ended again.
func (b *Backend) run(ctx context.Context, l spawner.Launch, c container.InspectResponse) error {
	if err := b.writeAccounts(ctx, l, c.Image); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("start %s: %w", l.ID, err)
	}
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), hurry)
	defer cancel()
	_, err := b.client.ContainerStart(whole, c.ID, client.ContainerStartOptions{})
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		return nil
	}
	err = b.explain(err, "start the container of %s", l.ID)
	return b.undo(ctx, l.ID, err)
}

// undo ends what a failed start may have left running, and gives why the start failed.
func (b *Backend) undo(ctx context.Context, id spawner.ID, why error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hurry)
	defer cancel()
	if err := b.Stop(ctx, id, 0); err != nil {
		return fmt.Errorf("%w; and then: %w", why, err)
	}
	return why
}
