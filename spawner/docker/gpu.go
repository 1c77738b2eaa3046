package docker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"slipway/internal/agent/control"
	"slipway/internal/clock"
	"slipway/internal/errs"
	"slipway/internal/gpu"
	"slipway/spawner"
)

// How a container comes to its slice of a GPU. An engine with CDI is told one name when the container is made, and
// reads what the name stands for at each start: the label says viaCDI. Other engines are told devices, files and
// environment when the container is made, and never again: the label bears their digest, and a start that needs others
// needs another container (see carry).
const (
	labelGPU = "slipway.gpu"
	noGPU    = "none"
	viaCDI   = "cdi"
)

// cdiEnv bears the digest of what an engine with CDI was told last: a container that starts with another one was given
// what its name stood for before.
const cdiEnv = "SLIPWAY_GPU_BINDING"

// checkEnv refuses variables that would decide which GPUs a container sees.
func checkEnv(env map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if gpu.Reserved(name) {
			return errs.Bad("env", name, "leave it out: which GPU is seen follows from the slice that was asked for")
		}
	}
	return nil
}

// plan is all that a container is made by.
type plan struct {
	spawner.Launch
	ability
	image   string            // its ID where the reference may mean another by now; empty: the launch's reference
	labels  map[string]string // further ones
	volumes []mount.Mount     // that an earlier container had
	network string            // the ID of the instance's own; empty: the site's
}

// how says by which label a container would have the launch's slice.
func (p plan) how() string {
	switch {
	case p.GPU == nil:
		return noGPU
	case p.cdi != "":
		return viaCDI
	default:
		return fingerprint(*p.GPU)
	}
}

// suits reports whether a container that is there gives the launch the slice that it holds, and no other.
func (p plan) suits(c container.InspectResponse) bool {
	if p.runtime != "" && c.HostConfig.Runtime != p.runtime {
		return false
	}
	has := c.Config.Labels[labelGPU]
	return has == p.how() || has == viaCDI && p.cdi != ""
}

// fingerprint names what a container is given for its slice.
func fingerprint(g gpu.Binding) string {
	text, err := json.Marshal(struct {
		Devices []gpu.DeviceNode
		Mounts  []gpu.Mount
		Env     map[string]string
	}{g.Devices, g.Mounts, g.Env})
	if err != nil { // strings and numbers can be written
		panic(fmt.Sprintf("write a binding: %v", err))
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// fixed is what the container itself is told of its slice: nothing when the engine reads it at each start.
func (p plan) fixed() gpu.Binding {
	if p.GPU == nil || p.cdi != "" {
		return gpu.Binding{}
	}
	return *p.GPU
}

// gpuMounts are the files and directories of the host that come with a slice.
func (p plan) gpuMounts() []mount.Mount {
	var all []mount.Mount
	for _, m := range p.fixed().Mounts {
		all = append(all, mount.Mount{Type: mount.TypeBind, Source: m.Source, Target: m.Target, ReadOnly: !m.Write})
	}
	return all
}

// equip adds to the resources what gives the container its slice.
func (p plan) equip(r container.Resources) container.Resources {
	for _, d := range p.fixed().Devices {
		host := d.Host
		if host == "" {
			host = d.Path
		}
		r.Devices = append(
			r.Devices, container.DeviceMapping{PathOnHost: host, PathInContainer: d.Path, CgroupPermissions: "rw"},
		)
	}
	if p.how() == viaCDI {
		r.DeviceRequests = []container.DeviceRequest{{Driver: "cdi", DeviceIDs: []string{deviceName(p.ID)}}}
	}
	return r
}

// deviceName is the name of a workload's device for all its life.
func deviceName(id spawner.ID) string { return gpu.Vendor + "=" + string(id) }

// description is what an engine with CDI reads at the container's next start. Without a slice it keeps GPUs away.
func (p plan) description() gpu.Binding {
	g := gpu.Binding{Env: gpu.Hidden()}
	if p.GPU != nil {
		g = *p.GPU
	}
	g.Name, g.Env = deviceName(p.ID), maps.Clone(g.Env)
	g.Env[cdiEnv] = fingerprint(g)
	return g
}

// describe tells an engine with CDI what the container's name for its device stands for now.
func (p plan) describe(c container.InspectResponse) error {
	if c.Config.Labels[labelGPU] != viaCDI {
		return nil
	}
	if err := p.cdi.Write(p.description()); err != nil {
		return fmt.Errorf("start %s: %w", p.ID, err)
	}
	return nil
}

// An engine with CDI reads a description when the kernel tells it of the change, which may be after it has started a
// container by the one before. So each container is looked at, and ended again, before its app is started: so often,
// and with a longer pause each time.
const (
	firstLook = 50 * time.Millisecond
	lastLook  = 2 * time.Second
)

// begin starts a container with the GPU of its launch. After an error it may run.
func (b *Backend) begin(ctx context.Context, p plan, c container.InspectResponse) error {
	if err := p.describe(c); err != nil {
		return err
	}
	for pause := firstLook; ; pause *= 2 {
		_, err := b.client.ContainerStart(ctx, c.ID, client.ContainerStartOptions{})
		given := false
		switch {
		case err == nil:
			given, err = b.given(ctx, p, c)
		case unheard(err):
			err = nil
		default:
			err = b.explain(err, "start the container of %s", p.ID)
		}
		if given || err != nil {
			return err
		}
		if pause > lastLook || !clock.Sleep(ctx, pause) {
			return errs.New(
				errs.Unavailable, "start %s: the engine does not learn which GPU is meant for its container", p.ID,
			).With("start it again; if it lasts, restart the engine")
		}
		if err := b.halt(ctx, p.ID, c, 0); err != nil {
			return err
		}
	}
}

// unheard reports whether an engine does not know of a description yet.
func unheard(err error) bool {
	return strings.Contains(strings.ToLower(err.Error()), "unresolvable cdi")
}

// given reports whether a container that has just started has the GPU that describe has told. One that has ended has
// none.
func (b *Backend) given(ctx context.Context, p plan, c container.InspectResponse) (bool, error) {
	if c.Config.Labels[labelGPU] != viaCDI {
		return true, nil
	}
	now, found, err := b.find(ctx, p.ID)
	if err != nil || !found || !now.State.Running {
		return err == nil, err
	}
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", now.State.Pid))
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("start %s: look which GPU its container has: %w", p.ID, err)
	}
	return slices.Contains(strings.Split(string(env), "\x00"), cdiEnv+"="+p.description().Env[cdiEnv]), nil
}

// undescribe takes away what a workload's device stands for: a container that somebody starts by hand gets no GPU.
func (b *Backend) undescribe(ctx context.Context, c container.InspectResponse, id spawner.ID) error {
	if c.Config.Labels[labelGPU] != viaCDI {
		return nil
	}
	a, err := b.ability(ctx)
	if err != nil || a.cdi == "" {
		return err
	}
	return a.cdi.Remove(deviceName(id))
}

// ofDriver reports whether a path inside is one at which the host's driver is put. It lies in memory in any case, so it
// does not matter to the workload's own files whether it is there.
func ofDriver(target string) bool {
	return target == control.GPUDir || strings.HasPrefix(path.Clean(target), control.GPUDir+"/")
}

// volumes are those that the engine made for a container because its image asks for them. Nobody else knows their
// names.
func volumes(c container.InspectResponse) []mount.Mount {
	var all []mount.Mount
	for _, m := range c.Mounts {
		if m.Type == mount.TypeVolume {
			all = append(
				all, mount.Mount{Type: mount.TypeVolume, Source: m.Name, Target: m.Destination, ReadOnly: !m.RW},
			)
		}
	}
	return all
}

// removeVolumes removes those that the engine does not count as the container's own, since a successor was given them
// by name.
func (b *Backend) removeVolumes(ctx context.Context, c container.InspectResponse) error {
	for _, v := range volumes(c) {
		if _, err := b.client.VolumeRemove(ctx, v.Source, client.VolumeRemoveOptions{}); err != nil && !gone(err) {
			return b.explain(err, "remove volume %s", v.Source)
		}
	}
	return nil
}
