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
	if err := b.settle(ctx, id); err != nil {
		return Capture{}, err
	}
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
	h := &holding{b: b, id: id}
	out.Pause, out.Resume = h.pause, h.resume
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
	out := Capture{Upper: c.GraphDriver.Data["UpperDir"], Base: referenceOf(c), ImageID: c.Image}
	for _, dir := range strings.Split(c.GraphDriver.Data["LowerDir"], ":") {
		if dir != "" && !strings.HasSuffix(dir, "-init/diff") {
			out.Layers = append(out.Layers, dir)
		}
	}
	if out.Upper == "" || len(out.Layers) == 0 {
		return Capture{}, errs.New(errs.Unavailable, "capture %s: the engine does not say where its layers lie", strings.TrimPrefix(c.Name, "/"))
	}
	for _, m := range c.Mounts {
		if !ofDriver(m.Destination) {
			out.Mounts = append(out.Mounts, m.Destination)
		}
	}
	out.Mounts = append(out.Mounts, slices.Collect(maps.Keys(c.HostConfig.Tmpfs))...)
	slices.Sort(out.Mounts)
	out.Mounts = slices.Compact(out.Mounts)
	return out, nil
}

// holding is one container that is being kept still while its changes are copied.
type holding struct {
	b     *Backend
	id    spawner.ID
	held  bool
	began string // when the container's present run began
	ran   bool   // whether it ran at all: a stopped one is still by itself
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
	if _, err := h.b.client.ContainerPause(ctx, c.ID, client.ContainerPauseOptions{}); err != nil {
		return h.b.explain(err, "pause %s", h.id)
	}
	return nil
}

// resume lets the container go on. It is an error when the container was not still all the time since pause: what was copied
// meanwhile may be half of one state and half of another.
func (h *holding) resume(ctx context.Context) error {
	c, found, err := h.b.find(ctx, h.id)
	if err != nil {
		return err
	}
	still := found && c.State.StartedAt == h.began && c.State.Running == h.ran && c.State.Paused == h.ran
	if found && c.State.Running && c.State.Paused {
		if err := h.b.unpause(ctx, h.id, c.ID); err != nil {
			return err
		}
	}
	if h.held && !still {
		err = errs.New(errs.Conflict, "session %s was stopped, started or removed while it was being frozen", h.id).With("freeze it again")
	}
	h.held = false
	return err
}
