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
)

// Capture says where a session's file tree lies on this host, for a freeze.
type Capture struct {
	Upper  string   // the directory of its changes
	Layers []string // the directories of its image, topmost first, without the engine's own
	Mounts []string // paths inside at which something else is mounted: nothing below them is in Upper
	Base   string   // the image's reference, as the session was started with
	// ImageID and the rest are of the image that the container really has.
	ImageID         string
	Env             []string
	Entrypoint, Cmd []string
	WorkingDir      string
	Architecture    string
	Labels          map[string]string
	// Pause holds all processes still, Resume lets them go on. Both are harmless when there is nothing to do. Resume must be
	// called with a context that has not ended.
	Pause, Resume func(context.Context) error
}

// storageDriver is the one that has layers in directories, as Capture needs them.
const storageDriver = "overlay2"

// Capture looks where a session's file tree lies.
func (b *Backend) Capture(ctx context.Context, id spawner.ID) (Capture, error) {
	c, found, err := b.find(ctx, id)
	if err != nil {
		return Capture{}, err
	}
	if !found {
		return Capture{}, errs.New(errs.NotFound, "capture %s: it has no container", id)
	}
	out, err := tree(c)
	if err != nil {
		return Capture{}, err
	}
	image, err := b.client.ImageInspect(ctx, c.Image)
	if err != nil {
		return Capture{}, b.explain(err, "capture %s: look at its image %s", id, c.Image)
	}
	out.Architecture = image.Architecture
	if cfg := image.Config; cfg != nil {
		out.Env, out.Entrypoint, out.Cmd, out.WorkingDir, out.Labels = cfg.Env, cfg.Entrypoint, cfg.Cmd, cfg.WorkingDir, cfg.Labels
	}
	out.Pause = func(ctx context.Context) error { return b.hold(ctx, id, true) }
	out.Resume = func(ctx context.Context) error { return b.hold(ctx, id, false) }
	return out, nil
}

// tree reads the engine's account of a container's layers.
func tree(c container.InspectResponse) (Capture, error) {
	if c.GraphDriver == nil || c.GraphDriver.Name != storageDriver {
		name := "one that it does not name"
		if c.GraphDriver != nil {
			name = c.GraphDriver.Name
		}
		return Capture{}, errs.New(errs.Missing, "capture %s: the engine's storage driver is %s", strings.TrimPrefix(c.Name, "/"), name).With(driverRemedy)
	}
	out := Capture{Upper: c.GraphDriver.Data["UpperDir"], Base: c.Config.Image, ImageID: c.Image}
	for _, dir := range strings.Split(c.GraphDriver.Data["LowerDir"], ":") {
		if dir != "" && !strings.HasSuffix(dir, "-init/diff") {
			out.Layers = append(out.Layers, dir)
		}
	}
	if out.Upper == "" || len(out.Layers) == 0 {
		return Capture{}, errs.New(errs.Unavailable, "capture %s: the engine does not say where its layers lie", strings.TrimPrefix(c.Name, "/"))
	}
	for _, m := range c.Mounts {
		out.Mounts = append(out.Mounts, m.Destination)
	}
	out.Mounts = append(out.Mounts, slices.Collect(maps.Keys(c.HostConfig.Tmpfs))...)
	slices.Sort(out.Mounts)
	out.Mounts = slices.Compact(out.Mounts)
	return out, nil
}

// hold pauses or resumes a container, if it runs and is not so already.
func (b *Backend) hold(ctx context.Context, id spawner.ID, pause bool) error {
	c, found, err := b.find(ctx, id)
	if err != nil || !found || !c.State.Running || c.State.Paused == pause {
		return err
	}
	if !pause {
		return b.unpause(ctx, id, c.ID)
	}
	if _, err := b.client.ContainerPause(ctx, c.ID, client.ContainerPauseOptions{}); err != nil {
		return b.explain(err, "pause %s", id)
	}
	return nil
}
