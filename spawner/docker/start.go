package docker

import (
	"context"
	"fmt"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"slipway/internal/errs"
	"slipway/internal/units"
	"slipway/spawner"
	"slipway/spawner/accounts"
)

// Start brings a workload's container up: makes it, starts a kept one again, or adopts a running one.
func (b *Backend) Start(ctx context.Context, l spawner.Launch) error {
	if err := valid(l); err != nil {
		return err
	}
	if err := b.settle(ctx, l.ID); err != nil {
		return err
	}
	c, found, err := b.named(ctx, l.ID)
	switch {
	case err != nil:
		return err
	case found && !b.owns(c, l.ID):
		return stranger(l.ID)
	case found && half(c):
		if err := b.discardHalf(ctx, c); err != nil {
			return err
		}
		found = false
	case found && c.State.Paused:
		return b.unpause(ctx, l.ID, c.ID)
	case found && c.State.Running:
		return nil
	}
	if err := b.survey(ctx, l); err != nil {
		return err
	}
	able, err := b.ability(ctx)
	if err != nil {
		return err
	}
	p := plan{Launch: l, ability: able}
	if p.network, err = b.ensureNetwork(ctx); err != nil {
		return err
	}
	if found {
		c, err = b.renew(ctx, p, c)
	} else {
		c, err = b.create(ctx, p)
	}
	if err != nil {
		return err
	}
	return b.run(ctx, p, c)
}

// leastMemory is the engine's own lower bound.
const leastMemory = 6 << 20

// valid refuses limits that are none, before the engine takes them for "no limit", and names that would forge a line of
// /etc/passwd.
func valid(l spawner.Launch) error {
	switch r := l.Spec.Resources; {
	case r.Memory < leastMemory:
		return errs.Bad("memory", units.FormatMemory(r.Memory), "at least 6M")
	case r.CPUs < 0.01:
		return errs.Bad("cpus", r.CPUs, "at least 0.01")
	case l.Spec.Image == "":
		return errs.Bad("image", "", "the name of an image of the engine")
	}
	if err := checkEnv(l.Spec.Env); err != nil {
		return err
	}
	return accounts.Check(l.Account)
}

func stranger(id spawner.ID) error {
	return errs.New(
		errs.Conflict, "start %s: a container named %s is there that this service did not make", id, nameOf(id),
	).With("see whose it is with `docker inspect " + nameOf(id) + "`")
}

// unpause wakes what a killed freeze left asleep.
func (b *Backend) unpause(ctx context.Context, id spawner.ID, container string) error {
	if _, err := b.client.ContainerUnpause(ctx, container, client.ContainerUnpauseOptions{}); err != nil {
		return b.explain(err, "unpause %s", id)
	}
	return nil
}

// create makes the container of a workload that has none.
func (b *Backend) create(ctx context.Context, p plan) (container.InspectResponse, error) {
	var none container.InspectResponse
	l := p.Launch
	do := b.plain
	if l.Spec.Environment != "" {
		do = b.thaw
	}
	if err := do(ctx, p); err != nil {
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

// plain makes a container that has nothing but its image.
func (b *Backend) plain(ctx context.Context, p plan) error {
	image, err := b.image(ctx, p.Launch)
	if err != nil {
		return err
	}
	if err := b.ready(ctx, p.Launch, image); err != nil {
		return err
	}
	return b.order(ctx, nameOf(p.ID), p)
}

// ready sees to it that what a new container binds is there: the engine wants it at once.
func (b *Backend) ready(ctx context.Context, l spawner.Launch, image string) error {
	if err := checkSources(b.cfg.Mounts); err != nil { // the others were found, and may never answer
		return err
	}
	return b.writeAccounts(ctx, l, image)
}

// order asks the engine for the container. It is not broken off when ctx ends: the engine would go on by itself, and
// the next start would meet half a container. A container of the name is no error here; whose it is decides the caller.
func (b *Backend) order(ctx context.Context, name string, p plan) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("start %s: %w", p.ID, err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hurry)
	defer cancel()
	r, err := b.client.ContainerCreate(ctx, b.options(name, p))
	if err != nil && !cerrdefs.IsConflict(err) {
		return b.explain(err, "create the container of %s", p.ID)
	}
	for _, w := range r.Warnings {
		b.log.Warn("the engine warns about a new container", "workload", p.ID, "warning", w)
	}
	return nil
}

// renew prepares a kept container for another run: with the limits, the GPU and the mounts of this launch. Its image
// stays, for the changes lie on it.
func (b *Backend) renew(ctx context.Context, p plan, c container.InspectResponse) (container.InspectResponse, error) {
	same := referenceOf(c) == p.Spec.Image && c.Config.Labels[labelEnvironment] == p.Spec.Environment
	other := b.outgrown(p, c)
	if !same || other != "" && pristine(c) {
		return b.exchange(ctx, p, c)
	}
	b.compare(ctx, p.Launch, c)
	if other != "" {
		return b.carry(ctx, p, c, other)
	}
	limits := b.limits(p.Launch)
	if _, err := b.client.ContainerUpdate(ctx, c.ID, client.ContainerUpdateOptions{Resources: &limits}); err != nil {
		return c, b.explain(err, "give %s its limits", p.ID)
	}
	return c, b.rejoin(ctx, c, p.network)
}

// exchange replaces a container of another image or with another GPU, if it never ran: then it holds no changes.
func (b *Backend) exchange(
	ctx context.Context, p plan, c container.InspectResponse,
) (container.InspectResponse, error) {
	if !pristine(c) {
		return c, errs.New(
			errs.Conflict, "start %s: its kept changes were made on %s, not on %s", p.ID, groundOf(c),
			ground(p.Spec.Image, p.Spec.Environment),
		).With("start it with " + groundOf(c) + ", or discard the changes first")
	}
	if err := b.Remove(ctx, p.ID); err != nil {
		return c, err
	}
	return b.create(ctx, p)
}

// ground says in words what changes lie over.
func ground(image, environment string) string {
	if environment == "" {
		return "image " + image
	}
	return "environment " + environment + " of image " + image
}

func groundOf(c container.InspectResponse) string {
	return ground(referenceOf(c), c.Config.Labels[labelEnvironment])
}

// compare tells the user when the image's name has come to mean a newer one. That the image is gone does not matter
// here.
func (b *Backend) compare(ctx context.Context, l spawner.Launch, c container.InspectResponse) {
	now, err := b.client.ImageInspect(ctx, l.Spec.Image)
	if err == nil && now.ID != baseOf(c) {
		l.Report("A newer "+l.Spec.Image+" exists; this session keeps the one that its changes were made on. Discard the changes to get the new one", -1)
	}
}

// run lets a stopped container run. Like order it is not broken off; if ctx has ended meanwhile, the container is ended
// again.
func (b *Backend) run(ctx context.Context, p plan, c container.InspectResponse) error {
	if err := b.writeAccounts(ctx, p.Launch, c.Image); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("start %s: %w", p.ID, err)
	}
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), hurry)
	defer cancel()
	err := b.begin(whole, p, c)
	if err == nil && ctx.Err() == nil {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("start %s: %w", p.ID, ctx.Err())
	}
	return b.undo(ctx, p.ID, err)
}

// undo ends what a failed start may have left running, and returns why the start failed.
func (b *Backend) undo(ctx context.Context, id spawner.ID, why error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hurry)
	defer cancel()
	if err := b.Stop(ctx, id, 0); err != nil {
		return fmt.Errorf("%w; and then: %w", why, err)
	}
	return why
}
