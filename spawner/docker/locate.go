package docker

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/storage"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"slipway/internal/clock"
	"slipway/internal/errs"
	"slipway/spawner/docker/overlay"
)

// An engine keeps trees in one of two worlds. With its own store (storage driver overlay2) it says where the
// directories lie. With containerd's store it says nothing: but whenever it gives out a container's tree, and while the
// container runs, an overlay is mounted at a path of the container's ID, and the host's table of mounts has its
// directories. So a stopped or new container is found by beginning to export it. Both need the engine's directories to
// be this process's own: else the tree goes through the API.

// elsewhere is the error of directories that this process cannot read.
func elsewhere(format string, args ...any) error {
	return errs.New(errs.Missing, "the engine's directories cannot be read: "+format, args...)
}

// locate finds where the tree of a container lies whose image has so many layers. It costs a millisecond; with
// containerd's store and a container that does not run, about ten. An error of kind Missing says that the tree is to be
// had through the API alone.
func (b *Backend) locate(ctx context.Context, c container.InspectResponse, layers int) (overlay.Stack, error) {
	if err := b.near(ctx); err != nil {
		return overlay.Stack{}, err
	}
	if c.GraphDriver != nil && c.GraphDriver.Name == storageDriver {
		t, err := tree(c)
		if err != nil {
			return overlay.Stack{}, err
		}
		return visible(t)
	}
	o, err := b.mounted(ctx, c.ID)
	if err != nil {
		return overlay.Stack{}, err
	}
	s, err := o.Resolve()
	if err != nil {
		return overlay.Stack{}, err
	}
	// Its own on top of the image's is one that the engine fills: /etc/hosts, /.dockerenv.
	if n := len(s.Layers) - layers; n == 0 || n == 1 {
		s.Layers = s.Layers[n:]
		return visible(s)
	}
	return overlay.Stack{}, elsewhere("an overlay of %d layers is no image's of %d", len(s.Layers), layers)
}

// near reports by its error that the engine's files are not what a container sees: with user ids of their own, or on
// another host.
func (b *Backend) near(ctx context.Context) error {
	if b.remote {
		return elsewhere("it is asked over the network, at %s", b.host)
	}
	info, err := b.client.Info(ctx, client.InfoOptions{})
	if err != nil {
		return b.explain(err, "ask the Docker Engine how it keeps its files")
	}
	return sameIDs(info.Info)
}

// sameIDs refuses engines whose files on the host belong to others than a container sees.
func sameIDs(info system.Info) error {
	for _, option := range info.SecurityOptions {
		for part := range strings.SplitSeq(option, ",") {
			if part == "name=rootless" || part == "name=userns" {
				return elsewhere("it runs with %s, so owners on this host are not those inside", part)
			}
		}
	}
	return nil
}

// visible reports directories that this process cannot read.
func visible(s overlay.Stack) (overlay.Stack, error) {
	for _, dir := range append([]string{s.Upper}, s.Layers...) {
		f, err := os.Open(dir)
		if err != nil {
			return overlay.Stack{}, elsewhere("%w", err)
		}
		_ = f.Close()
	}
	return s, nil
}

// mounted finds the overlay of a container; where there is none it has the engine make one for a moment, and waits
// until it is gone.
func (b *Backend) mounted(ctx context.Context, container string) (o overlay.Mount, err error) {
	if o, found := overlay.Find(container); found {
		return o, nil
	}
	r, err := b.client.ContainerExport(ctx, container, client.ContainerExportOptions{})
	if err != nil {
		return overlay.Mount{}, b.explain(err, "look where the tree of %s lies", container)
	}
	// It is mounted at the first byte, and stays so while the rest is not fetched.
	_, err = io.ReadFull(r, make([]byte, 1))
	found := false
	if err == nil {
		o, found = overlay.Find(container)
	}
	_ = r.Close()
	switch {
	case err != nil:
		return overlay.Mount{}, b.explain(err, "look where the tree of %s lies", container)
	case !found:
		return overlay.Mount{}, elsewhere("they are not in this host's table of mounts")
	}
	return o, unmounted(ctx, container)
}

// unmounted waits until a container that does not run is mounted no more: nobody may write into a mounted overlay's
// directories.
func unmounted(ctx context.Context, container string) error {
	for pause := time.Millisecond; pause < lastPause; pause *= 2 {
		if _, found := overlay.Find(container); !found {
			return nil
		}
		if !clock.Sleep(ctx, pause) {
			return ctx.Err()
		}
	}
	return errs.New(errs.Unavailable, "the engine keeps the tree of %s mounted though it does not run", container).
		With("try again; if it lasts, restart the engine")
}

// layersOf reads where an image's layers lie, topmost first, from an engine with its own store.
func layersOf(d *storage.DriverData) []string {
	if d == nil || d.Name != storageDriver || d.Data["UpperDir"] == "" {
		return nil
	}
	all := []string{d.Data["UpperDir"]}
	return slices.DeleteFunc(
		append(all, strings.Split(d.Data["LowerDir"], ":")...), func(dir string) bool { return dir == "" },
	)
}

// Reach reports by its error, which is of kind Missing, that this process cannot read the engine's directories, so that
// freezes take the slow way. It changes nothing, so of containerd's store, of which the engine tells nothing before
// there is a container, it sees only whether the engine is on this host.
func (b *Backend) Reach(ctx context.Context) error {
	if err := b.near(ctx); err != nil {
		return err
	}
	info, err := b.client.Info(ctx, client.InfoOptions{})
	if err != nil {
		return b.explain(err, "ask the Docker Engine where it keeps its files")
	}
	dir := info.Info.DockerRootDir
	if info.Info.Driver == storageDriver {
		dir = filepath.Join(dir, storageDriver)
	}
	_, err = visible(overlay.Stack{Upper: dir})
	return err
}
