package docker

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"slipway/internal/errs"
	"slipway/spawner"
)

// A session that starts from an environment has the environment's changes as its own first ones. Its container is made
// under a name that no start looks for, its empty directory of changes is filled, and then one renaming makes it the
// session's. What is cut short leaves a container of the first name, which never runs: the next start removes it and
// makes another.

// labelEnvironment has the digest of the environment that a session was started from.
const labelEnvironment = "slipway.environment"

// fillingName is the name of a workload's container until its environment is in it.
func fillingName(id spawner.ID) string { return nameOf(id) + ".filling" }

// half reports whether a container may lack some of its environment.
func half(c container.InspectResponse) bool {
	return c.Name == "/"+fillingName(spawner.ID(c.Config.Labels[labelID]))
}

// thaw makes the container of a workload that has none, with an environment's changes in it.
func (b *Backend) thaw(ctx context.Context, p plan) error {
	if p.Thaw == nil {
		return errs.New(
			errs.Missing, "start %s: this service has no environments, and it is to start from %s", p.ID,
			p.Spec.Environment,
		)
	}
	from, err := p.Thaw(ctx)
	if err != nil {
		return fmt.Errorf("start %s from environment %s: %w", p.ID, p.Spec.Environment, err)
	}
	if p.image, err = b.thawBase(ctx, p.Launch, from); err != nil {
		return err
	}
	if err := b.ready(ctx, p.Launch, p.image); err != nil {
		return err
	}
	if err := b.writable(ctx, p.image); errs.Is(err, errs.Missing) {
		return b.thawLayered(ctx, p, from)
	} else if err != nil {
		return err
	}
	p.labels = map[string]string{labelImage: p.Spec.Image}
	if err := b.order(ctx, fillingName(p.ID), p); err != nil {
		return err
	}
	c, found, err := b.inspect(ctx, fillingName(p.ID))
	if err == nil && !(found && b.owns(c, p.ID)) {
		err = errs.New(errs.Unavailable, "start %s: its container vanished as soon as it was made", p.ID)
	}
	if err != nil {
		return err
	}
	p.Report("Unpacking the environment", -1)
	if err := b.fill(ctx, c, from); err != nil {
		return fmt.Errorf("start %s from environment %s: %w", p.ID, p.Spec.Environment, err)
	}
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), hurry)
	defer cancel()
	return b.rename(whole, p.ID, c)
}

// thawBase sees to it that the engine has the very image that an environment's changes are over, and returns its ID.
func (b *Backend) thawBase(ctx context.Context, l spawner.Launch, from spawner.Thaw) (string, error) {
	if from.Image != "" {
		has, err := b.client.ImageInspect(ctx, from.Image)
		if err == nil {
			return has.ID, fits(l.Spec.Image, has.Architecture, runtime.GOARCH)
		}
		if !gone(err) {
			return "", b.explain(err, "look for image %s", from.Image)
		}
	}
	id, err := b.image(ctx, l)
	if err == nil && from.Image != "" && id != from.Image {
		return "", errs.New(
			errs.Missing, "start %s from environment %s: it was made on image %s, and %s is now %s", l.ID, from.Digest,
			from.Image, l.Spec.Image, id,
		).With("put the earlier " + l.Spec.Image + " back into the engine (`docker load`), or freeze the environment anew on the new one")
	}
	return id, err
}

// writable reports by an error of kind Missing that the directories of containers of an image cannot be reached.
func (b *Backend) writable(ctx context.Context, image string) error {
	has, err := b.client.ImageInspect(ctx, image)
	if err != nil {
		return b.explain(err, "look at image %s", image)
	}
	b.trees.Lock()
	defer b.trees.Unlock()
	_, err = b.layers(ctx, has)
	return err
}

// fill puts an environment's changes into a container that never ran. What the engine has put there for the container's
// making goes: it does so again when the container starts.
func (b *Backend) fill(ctx context.Context, c container.InspectResponse, from spawner.Thaw) error {
	image, err := b.client.ImageInspect(ctx, c.Image)
	if err != nil {
		return b.explain(err, "look at image %s", c.Image)
	}
	where, err := b.locate(ctx, c, len(image.RootFS.Layers))
	if err != nil {
		return fmt.Errorf("fill its container: %w", err)
	}
	if err := empty(where.Upper); err != nil {
		return fmt.Errorf("fill its container: %w", err)
	}
	if err := from.Fill(ctx, where.Upper); err != nil {
		return fmt.Errorf("fill its container: %w", err)
	}
	return flushAll(where.Upper)
}

// empty removes all that is in a directory.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// flushAll has all of a directory's file system on the disk: the container's name will say that it is whole.
func flushAll(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return fmt.Errorf("write %s to the disk: %w", dir, err)
	}
	return nil
}

// discardHalf removes a container that may lack some of its environment.
func (b *Backend) discardHalf(ctx context.Context, c container.InspectResponse) error {
	_, err := b.client.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{RemoveVolumes: true})
	if err != nil && !gone(err) {
		return b.explain(err, "remove what an earlier start left")
	}
	return nil
}
