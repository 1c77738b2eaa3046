package docker

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/docker/overlay"
)

// Image is an image as the engine has it.
type Image struct {
	ImageID         string
	Layers          []string // the directories of its tree, topmost first, without the engine's own
	Env             []string
	Entrypoint, Cmd []string
	WorkingDir      string
	Architecture    string
	Labels          map[string]string
}

// Capture says where a session's file tree lies on this host, for a freeze. The image is the one that the container
// really has.
type Capture struct {
	Image
	Upper  string   // the directory of its changes
	Mounts []string // paths inside at which something else is mounted: nothing below them is in Upper
	Base   string   // the image's reference, as the session was started with
	// the digest of the environment that the session was started from: Upper holds its changes too; empty: none
	Environment string
	// Fetch is nil when Upper and Layers are there to be read. Otherwise they are empty, and Fetch gets the tree
	// through the engine's API: it makes both directories below dir, which is the caller's to remove, and keeps a copy
	// of the image. See fetch for its price. Pause and Resume do nothing then: what was fetched stays still.
	Fetch func(ctx context.Context, dir string, tell func(message string, percent int)) (upper string, layers []string, err error)
	Why   string   // in words, why Fetch is there
	Lost  []string // what Fetch cannot bring, for it is not in what engines give out
	// Pause holds all processes still, Resume lets them go on. Both are harmless when there is nothing to do. Resume
	// must be called with a context that has not ended. It is an error of kind Conflict when they were not still all
	// the time; they are let go at the latest after 30 seconds.
	Pause, Resume func(context.Context) error
}

// storageDriver is the one of the engine's own store that has layers in directories.
const storageDriver = "overlay2"

// Capture looks where a session's file tree lies. It copies nothing.
func (b *Backend) Capture(ctx context.Context, id spawner.ID) (Capture, error) {
	if err := b.settle(ctx, id); err != nil {
		return Capture{}, err
	}
	c, found, err := b.find(ctx, id)
	switch {
	case err != nil:
		return Capture{}, err
	case !found:
		return Capture{}, errs.New(errs.NotFound, "capture %s: it has no container", id)
	case half(c):
		return Capture{}, errs.New(errs.Conflict, "capture %s: it is still being filled with its environment", id).
			With("wait until it runs")
	}
	image, err := b.client.ImageInspect(ctx, baseOf(c))
	if err != nil {
		return Capture{}, b.explain(err, "capture %s: look at its image %s", id, baseOf(c))
	}
	out := Capture{
		Image: imageOf(image), Base: referenceOf(c), Environment: c.Config.Labels[labelEnvironment],
		Mounts: mountsOf(c),
	}
	h := &holding{b: b, id: id, limit: mostStill}
	where, err := b.locate(ctx, c, len(image.RootFS.Layers))
	if err == nil && c.Image != image.ID {
		err = elsewhere("its environment is a layer of its own, as they could not be written when it was started")
	}
	switch {
	case errs.Is(err, errs.Missing):
		out.Why, out.Lost, out.Fetch = err.Error(), notExported(), h.fetch
		out.Pause, out.Resume = nothing, nothing
	case err != nil:
		return Capture{}, err
	default:
		out.Upper, out.Layers, out.Pause, out.Resume = where.Upper, where.Layers, h.pause, h.resume
	}
	return out, nil
}

func nothing(context.Context) error { return nil }

// imageOf reads the engine's account of an image.
func imageOf(i client.ImageInspectResult) Image {
	out := Image{ImageID: i.ID, Architecture: i.Architecture}
	if cfg := i.Config; cfg != nil {
		out.Env, out.Entrypoint, out.Cmd, out.WorkingDir, out.Labels = cfg.Env, cfg.Entrypoint, cfg.Cmd, cfg.WorkingDir, cfg.Labels
	}
	return out
}

// mountsOf returns the paths inside a container at which something is mounted, but for those of the driver of GPUs.
func mountsOf(c container.InspectResponse) []string {
	var all []string
	for _, m := range c.Mounts {
		if !ofDriver(m.Destination) {
			all = append(all, m.Destination)
		}
	}
	all = append(all, slices.Collect(maps.Keys(c.HostConfig.Tmpfs))...)
	slices.Sort(all)
	return slices.Compact(all)
}

// tree reads the engine's account of a container's layers. Only an engine with its own store gives one.
func tree(c container.InspectResponse) (overlay.Stack, error) {
	name := strings.TrimPrefix(c.Name, "/")
	if c.GraphDriver == nil || c.GraphDriver.Name != storageDriver {
		driver := "one that it does not name"
		if c.GraphDriver != nil {
			driver = c.GraphDriver.Name
		}
		return overlay.Stack{}, errs.New(
			errs.Missing, "look where the tree of %s lies: the engine's storage driver is %s", name, driver,
		).With(driverRemedy)
	}
	out := overlay.Stack{Upper: c.GraphDriver.Data["UpperDir"]}
	for dir := range strings.SplitSeq(c.GraphDriver.Data["LowerDir"], ":") {
		if dir != "" && !strings.HasSuffix(dir, "-init/diff") {
			out.Layers = append(out.Layers, dir)
		}
	}
	if out.Upper == "" || len(out.Layers) == 0 {
		return overlay.Stack{}, errs.New(
			errs.Unavailable, "look where the tree of %s lies: the engine does not say", name,
		)
	}
	return out, nil
}
