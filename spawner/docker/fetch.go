package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"slipway/internal/errs"
	"slipway/spawner/docker/layer"
)

// kindFreeze is the kind label of an image that holds a session as it was at one moment.
const kindFreeze = "freeze"

// notExported names what engines leave out of the trees that they give out.
func notExported() []string {
	return []string{"extended attributes other than file capabilities", "sockets", "owner and mode of / itself"}
}

// fetch gets a session's tree through the engine's API. A stopped one is exported as it is. Of a running one the engine
// makes an image first, while it is held still: a few seconds for some hundred megabytes of changes, and as much of the
// engine's disk until this is done. The export is the whole tree: 13 s for 2.5 GB, where reading the directories of the
// changes takes a quarter of a second. It is compared with the image's tree, which is exported once and kept unpacked
// in Config.Scratch.
func (h *holding) fetch(
	ctx context.Context, dir string, tell func(message string, percent int),
) (upper string, layers []string, err error) {
	b := h.b
	b.trees.Lock()
	defer b.trees.Unlock()
	c, found, err := b.find(ctx, h.id)
	switch {
	case err != nil:
		return "", nil, err
	case !found:
		return "", nil, errs.New(errs.NotFound, "fetch the tree of %s: it has no container", h.id)
	}
	base, created, err := b.unpacked(ctx, baseOf(c), tell)
	if err != nil {
		return "", nil, err
	}
	upper = filepath.Join(dir, "upper")
	if err := os.Mkdir(upper, 0o755); err != nil {
		return "", nil, fmt.Errorf("fetch the tree of %s: %w", h.id, err)
	}
	u := &layer.Unpacking{
		Dir: upper, Base: base, Time: created,
		Told: telling(tell, "Fetching all files of the session through the engine's API"),
	}
	if c.State.Running {
		err = h.fetchRunning(ctx, c, u, tell)
	} else {
		err = b.export(ctx, c.ID, u)
	}
	if err != nil {
		return "", nil, fmt.Errorf("fetch the tree of %s: %w", h.id, err)
	}
	return upper, []string{base}, nil
}

// telling tells of an export, every 64 MiB.
func telling(tell func(string, int), message string) func(int64) {
	last := int64(0)
	return func(bytes int64) {
		if bytes-last >= 64<<20 {
			last = bytes
			tell(fmt.Sprintf(
				"%s (%d MB so far; this engine's directories cannot be read, which would be quicker)", message,
				bytes/1e6,
			), -1)
		}
	}
}

// fetchRunning fetches a running container by way of an image of this moment.
func (h *holding) fetchRunning(
	ctx context.Context, c container.InspectResponse, u *layer.Unpacking, tell func(string, int),
) error {
	b := h.b
	if err := b.sweepImages(ctx); err != nil {
		return err
	}
	tell("The engine makes a copy of the session's changes", -1)
	image, err := h.snapshot(ctx, c)
	if err != nil {
		return err
	}
	err = b.unhidden(ctx, c.ID)
	if err == nil {
		err = b.still(ctx, kindTree, image, func(container string) error { return b.export(ctx, container, u) })
	}
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), hurry)
	defer cancel()
	return errors.Join(err, b.sweepImages(whole))
}

// snapshot makes an image of a container, which is held still meanwhile.
func (h *holding) snapshot(ctx context.Context, c container.InspectResponse) (image string, err error) {
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), hurry)
	defer cancel()
	err = h.pause(whole)
	if err == nil {
		var made client.ContainerCommitResult
		made, err = h.b.client.ContainerCommit(whole, c.ID, client.ContainerCommitOptions{NoPause: true, Config: &container.Config{
			Labels: map[string]string{labelInstance: h.b.cfg.Instance, labelKind: kindFreeze, labelID: ""},
		}})
		image = made.ID
		if err != nil {
			err = h.b.explain(err, "make an image of it")
		}
	}
	return image, errors.Join(err, h.resume(whole))
}

// unhidden refuses a container with a file whose name says in an image that another one is deleted: the image is
// another tree then.
func (b *Backend) unhidden(ctx context.Context, container string) error {
	changes, err := b.client.ContainerDiff(ctx, container, client.ContainerDiffOptions{})
	if err != nil {
		return b.explain(err, "ask what has changed")
	}
	for _, c := range changes.Changes {
		if strings.HasPrefix(path.Base(c.Path), ".wh.") {
			return errs.New(errs.Conflict, "the name of %q has a meaning of its own in images, and this engine gives out a running session as an image", c.Path).
				With("rename it, or stop the session before you freeze it")
		}
	}
	return nil
}

// sweepImages removes what fetches made, of a killed service too.
func (b *Backend) sweepImages(ctx context.Context) error {
	if err := b.sweep(ctx, kindTree); err != nil {
		return err
	}
	list, err := b.client.ImageList(
		ctx, client.ImageListOptions{All: true, Filters: b.ours().Add("label", labelKind+"="+kindFreeze)},
	)
	if err != nil {
		return b.explain(err, "look for leftovers")
	}
	for _, i := range list.Items {
		if _, err := b.client.ImageRemove(ctx, i.ID, client.ImageRemoveOptions{Force: true, PruneChildren: false}); err != nil && !gone(err) {
			return b.explain(err, "remove the leftover %s", i.ID)
		}
	}
	return nil
}

// export unpacks the tree of a container that does not run.
func (b *Backend) export(ctx context.Context, container string, u *layer.Unpacking) error {
	r, err := b.client.ContainerExport(ctx, container, client.ContainerExportOptions{})
	if err != nil {
		return b.explain(err, "export %s", container)
	}
	err = u.Unpack(r)
	if err == nil {
		_, err = io.Copy(io.Discard, r)
	}
	return errors.Join(err, r.Close())
}
