package docker

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"slipway/internal/agent/control"
	"slipway/internal/gpu"
	"slipway/spawner"
)

// The labels of a container. labelID is on workloads only.
const (
	labelInstance = "slipway.instance"
	labelID       = "slipway.id"
	labelOwner    = "slipway.owner"
	labelKind     = "slipway.kind"
	labelVersion  = "slipway.version"
)

// options is the whole configuration of a workload's container.
func (b *Backend) options(name string, p plan) client.ContainerCreateOptions {
	return client.ContainerCreateOptions{Name: name, Config: b.config(p), HostConfig: b.hostConfig(p)}
}

// config is what the container is. All that an image could say about its first process is said here instead.
func (b *Backend) config(l plan) *container.Config {
	labels := map[string]string{
		labelInstance: b.cfg.Instance,
		labelID:       string(l.ID),
		labelOwner:    string(l.Owner),
		labelKind:     string(l.Kind),
		labelVersion:  b.cfg.Version,
		labelGPU:      l.how(),
	}
	if l.Spec.Environment != "" {
		labels[labelEnvironment] = l.Spec.Environment
	}
	if seen := fingerprintOf(b.shown(l.Launch)); seen != "" {
		labels[labelMounts] = seen
	}
	maps.Copy(labels, l.labels)
	return &container.Config{
		Hostname:    string(l.ID),
		Image:       cmp.Or(l.image, l.Spec.Image),
		User:        fmt.Sprintf("%d:%d", l.Account.UID, l.Account.GID),
		Entrypoint:  []string{control.Program},
		Cmd:         []string{"agent"},
		WorkingDir:  l.Account.Home,
		Env:         environment(l),
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
		StopSignal:  "SIGTERM",
		Labels:      labels,
	}
}

// environment is public: `docker inspect` shows it. That GPUs are hidden is said to all containers, over whatever an
// image says: an engine may have a runtime that would obey the image.
func environment(l plan) []string {
	env := gpu.Hidden()
	maps.Copy(env, l.Spec.Env)
	maps.Copy(env, l.fixed().Env)
	env[control.IDEnv] = string(l.ID)
	env["HOME"] = l.Account.Home
	env["USER"] = l.Account.Login
	env["LOGNAME"] = l.Account.Login
	var out []string
	for _, k := range slices.Sorted(maps.Keys(env)) {
		out = append(out, k+"="+env[k])
	}
	return out
}

// hostConfig is what the host grants the container: no rights, bounded resources, no published port.
func (b *Backend) hostConfig(l plan) *container.HostConfig {
	noInit := false // the agent is the first process
	return &container.HostConfig{
		Init:          &noInit,
		Runtime:       l.runtime,
		NetworkMode:   container.NetworkMode(b.cfg.Network),
		IpcMode:       container.IPCModePrivate,
		RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyDisabled},
		// What the agent itself says goes here; the app's output is the agent's to keep.
		LogConfig: container.LogConfig{
			Type: "local", Config: map[string]string{"max-size": "1m", "max-file": "1", "compress": "false"},
		},
		CapDrop:     []string{"ALL"},
		SecurityOpt: []string{"no-new-privileges:true"},
		GroupAdd:    groupsOf(l.Account),
		// programs that share arrays need more than the engine's 64 MiB; it counts as memory
		ShmSize:   l.Spec.Resources.Memory / 2,
		Resources: l.equip(b.limits(l.Launch)),
		Tmpfs:     map[string]string{control.RunDir: b.runDirOptions(l.Account)},
		Mounts:    slices.Concat(b.mounts(l.Launch), l.gpuMounts(), l.volumes),
	}
}

// groupsOf returns the further groups by their numbers: names would be the image's.
func groupsOf(a spawner.Account) []string {
	var ids []string
	for _, g := range a.Groups {
		ids = append(ids, strconv.Itoa(g.ID))
	}
	return ids
}

func (b *Backend) runDirOptions(a spawner.Account) string {
	return fmt.Sprintf("rw,nosuid,nodev,mode=0700,uid=%d,gid=%d,size=%d", a.UID, a.GID, b.cfg.RunSize)
}

// limits are the resources of a launch. No swap: a session that swaps is slow for all.
func (b *Backend) limits(l spawner.Launch) container.Resources {
	r := l.Spec.Resources
	pids := r.Pids
	if pids <= 0 {
		pids = b.cfg.PidsLimit
	}
	return container.Resources{
		Memory:     r.Memory,
		MemorySwap: r.Memory,
		NanoCPUs:   int64(r.CPUs * 1e9),
		PidsLimit:  &pids,
	}
}

// mounts are what the workload sees of this host.
func (b *Backend) mounts(l spawner.Launch) []mount.Mount {
	bind := func(source, target string, readOnly bool) mount.Mount {
		return mount.Mount{Type: mount.TypeBind, Source: source, Target: target, ReadOnly: readOnly}
	}
	all := []mount.Mount{
		bind(l.AgentDir, control.BinDir, true),
		bind(filepath.Join(l.Dir, path.Base(control.LinkDir)), control.LinkDir, true),
		homeMount(l),
		bind(filepath.Join(l.Dir, passwdFile), "/etc/passwd", true),
		bind(filepath.Join(l.Dir, groupFile), "/etc/group", true),
	}
	for _, m := range b.shown(l) {
		extra := bind(m.Source, m.Target, m.ReadOnly)
		if m.Propagation != "" {
			extra.BindOptions = &mount.BindOptions{Propagation: mount.Propagation(m.Propagation)}
		}
		all = append(all, extra)
	}
	return all
}
