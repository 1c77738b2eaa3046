package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"slipway/internal/errs"
	"slipway/spawner"
)

// An engine fixes a container's devices and mounts when it is made. When a kept container needs others, an heir is made
// beside it, of the same image and under a name of its own, and the directory of the changes moves to it by one rename.
// Then the old container goes, and the heir takes its name. Whatever is cut short, settle sees how far it came: the
// changes are where their directory is, and there is but one.
const (
	labelHeir  = "slipway.heir"  // on an heir: the ID of the container whose changes it takes
	labelImage = "slipway.image" // the image's reference, as the workload was started with it
)

// heirName is the name of a workload's container until it has taken its predecessor's place.
func heirName(id spawner.ID) string { return nameOf(id) + ".next" }

// referenceOf returns the reference of a container's image: an heir is made by the image's ID.
func referenceOf(c container.InspectResponse) string {
	if ref := c.Config.Labels[labelImage]; ref != "" {
		return ref
	}
	return c.Config.Image
}

// pristine reports whether a container never ran and has nobody's changes.
func pristine(c container.InspectResponse) bool {
	return c.State.Status == container.StateCreated && c.Config.Labels[labelHeir] == ""
}

// carry replaces a stopped container by one that is made for p, and says what for; it has all the changes.
func (b *Backend) carry(
	ctx context.Context, p plan, old container.InspectResponse, other string,
) (container.InspectResponse, error) {
	if _, err := tree(old); err != nil {
		return old, errs.New(
			errs.Missing, "start %s: its container must be made anew for %s, and its changes cannot be moved: %w", p.ID,
			other, err,
		).With(driverRemedy)
	}
	if err := b.ready(ctx, p.Launch, old.Image); err != nil {
		return old, err
	}
	p.Report("Moving your changes to a container with "+other, -1)
	// From here on nothing is broken off: each step is short, and settle would only have more to do.
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), hurry)
	defer cancel()
	p.image, p.volumes = old.Image, volumes(old)
	p.labels = map[string]string{labelHeir: old.ID, labelImage: referenceOf(old)}
	if err := b.order(whole, heirName(p.ID), p); err != nil {
		return old, err
	}
	heir, found, err := b.inspect(whole, heirName(p.ID))
	if err == nil && !found {
		err = errs.New(errs.Unavailable, "start %s: its container vanished as soon as it was made", p.ID)
	}
	if err == nil {
		err = bequeath(old, heir)
	}
	if err != nil {
		return old, err
	}
	if err := b.succeed(whole, p.ID, old, heir); err != nil {
		return old, err
	}
	return heir, nil
}

// settle finishes, or takes back, a change of containers that was cut short.
func (b *Backend) settle(ctx context.Context, id spawner.ID) error {
	heir, found, err := b.inspect(ctx, heirName(id))
	if err != nil || !found || !b.owns(heir, id) {
		return err
	}
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), hurry)
	defer cancel()
	old, found, err := b.inspect(whole, nameOf(id))
	switch {
	case err != nil:
		return err
	case !found:
		return b.rename(whole, id, heir)
	case !b.owns(old, id):
		return stranger(id)
	}
	inherited, err := inherits(old, heir)
	if err != nil {
		return err
	}
	if inherited {
		return b.succeed(whole, id, old, heir)
	}
	if _, err := b.client.ContainerRemove(whole, heir.ID, client.ContainerRemoveOptions{}); err != nil && !gone(err) {
		return b.explain(err, "remove what an earlier start of %s left", id)
	}
	return nil
}

// succeed lets an heir that has the changes take its predecessor's place. The volumes stay: they are the heir's now.
func (b *Backend) succeed(ctx context.Context, id spawner.ID, old, heir container.InspectResponse) error {
	if _, err := b.client.ContainerRemove(ctx, old.ID, client.ContainerRemoveOptions{}); err != nil && !gone(err) {
		return b.explain(err, "remove the earlier container of %s", id)
	}
	return b.rename(ctx, id, heir)
}

func (b *Backend) rename(ctx context.Context, id spawner.ID, heir container.InspectResponse) error {
	if _, err := b.client.ContainerRename(ctx, heir.ID, client.ContainerRenameOptions{NewName: nameOf(id)}); err != nil && !gone(err) {
		return b.explain(err, "name the container of %s", id)
	}
	return nil
}

// inherits reports whether an heir has its predecessor's changes. An answer that is none is an error: nothing may be
// removed then.
func inherits(old, heir container.InspectResponse) (bool, error) {
	from, to := upper(old), upper(heir)
	left, err := there(from)
	if err != nil || left {
		return false, err
	}
	taken, err := there(to)
	if err == nil && !(taken && heir.Config.Labels[labelHeir] == old.ID) {
		err = errs.New(
			errs.Unavailable, "the changes of %s are neither at %q nor at %q", strings.TrimPrefix(old.Name, "/"), from,
			to,
		).With("let the service see the engine's data directory, on the same host and as root")
	}
	return taken, err
}

func upper(c container.InspectResponse) string {
	if c.GraphDriver == nil {
		return ""
	}
	return c.GraphDriver.Data["UpperDir"]
}

func there(dir string) (bool, error) {
	_, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// bequeath moves the changes of a stopped container to another one of the same image that never ran. It is done by one
// rename of their directory, so links, owners, deletions and all other attributes are those that were.
func bequeath(old, heir container.InspectResponse) error {
	from, to, err := estate(old, heir)
	if err != nil {
		return err
	}
	// What the engine has put there for the container's making, such as its working directory, is in the other as well.
	if err := empty(to); err != nil {
		return fmt.Errorf("move the changes of %s: %w", old.Name, err)
	}
	switch err := syscall.Rename(from, to); { // os.Rename puts no directory in place of an empty one
	case errors.Is(err, syscall.EXDEV):
		return errs.New(
			errs.Missing, "move the changes of %s: the engine counts each container's space by itself: %w", old.Name,
			err,
		).With("take overlay2.size out of the engine's storage options, or install an engine with CDI")
	case err != nil:
		return fmt.Errorf("move the changes of %s: %w", old.Name, err)
	}
	return errors.Join(flush(filepath.Dir(to)), flush(filepath.Dir(from)))
}

// estate returns the directories of both containers' changes, when they may be exchanged.
func estate(old, heir container.InspectResponse) (from, to string, err error) {
	has, err := tree(old)
	if err != nil {
		return "", "", err
	}
	gets, err := tree(heir)
	switch {
	case err != nil:
		return "", "", err
	case old.State.Running || heir.State.Status != container.StateCreated:
		return "", "", errs.New(errs.Conflict, "move the changes of %s: it is being started outside Slipway", old.Name).
			With("stop it, and start it again")
	case !slices.Equal(has.Layers, gets.Layers):
		return "", "", errs.New(errs.Conflict, "move the changes of %s: they were made on another image", old.Name)
	case has.Upper == gets.Upper || filepath.Dir(filepath.Dir(has.Upper)) != filepath.Dir(filepath.Dir(gets.Upper)):
		return "", "", errs.New(
			errs.Unavailable, "move the changes of %s: %s and %s are not where the engine keeps them", old.Name,
			has.Upper, gets.Upper,
		)
	}
	return has.Upper, gets.Upper, nil
}

// flush has the entries of a directory on the disk.
func flush(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
