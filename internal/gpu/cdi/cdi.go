// Package cdi says what a container needs to use its slice of a GPU and nothing else of any GPU: device nodes, the
// files of the host's driver, and environment. It writes that down in the form of the Container Device Interface as
// well, for engines that read it.
//
// It promises that a binding names the nodes of the leased GPU, and of a GPU that is cut those of the leased instance
// alone, with the numbers that the loaded driver has now; and that a description is on the disk whole or not at all. It
// asks no driver: all that it knows of the host it reads from files below Host.Root.
package cdi

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/internal/gpu"
)

// Host is where the driver's files are looked for. The zero value is this host.
type Host struct {
	// Root is the directory in which the driver is installed; empty: "/". Another one is that of a container that
	// brings the driver.
	Root string

	numbers func(path string) (major, minor int64, err error) // of a device node; nil: the file system's
	make    func(path string, major, minor int64) error       // makes one; nil: the kernel does
}

// The environment of a container that has a slice, beside gpu.Hidden's.
const (
	visibleEnv = "CUDA_VISIBLE_DEVICES"
	sliceEnv   = "SLIPWAY_GPU"        // the slice in words
	expectEnv  = "SLIPWAY_GPU_EXPECT" // what a self-test must find: gpu.Expectation as JSON
)

// Bind says what the container of a workload needs for its slice s of dev; in is the instance that s stands for when
// dev is cut. A device node that is missing is made: the driver makes those of an instance only when somebody with
// root's rights asks.
func (h *Host) Bind(dev gpu.Device, in *gpu.Instance, s gpu.Slice, holder string) (gpu.Binding, error) {
	b := gpu.Binding{Name: gpu.Vendor + "=" + holder, Env: gpu.Hidden()}
	b.Env[sliceEnv] = s.String()
	switch {
	case !nameForm.MatchString(holder):
		return b, errs.Bad("holder", holder, "letters, digits and dashes")
	case s.Simulated:
		return b, nil
	case s.Mode == gpu.MIG && (in == nil || in.UUID == "" || in.CI < 0 || in.GPU != dev.UUID):
		return b, fmt.Errorf(
			"bind %s: it has no complete instance on %s: %w", s, gpu.ShortUUID(dev.UUID), gpu.ErrBadPlace,
		)
	case s.Mode != gpu.MIG:
		in = nil
	}
	if err := h.equip(&b, dev, in); err != nil {
		return b, fmt.Errorf("bind %s: %w", s, err)
	}
	visible := dev.UUID
	if in != nil {
		visible = in.UUID
	}
	b.Expect.UUIDs, b.Expect.Memory, b.Expect.SMs, b.Expect.Tier = []string{visible}, s.Memory, s.SMs, s.Tier
	if s.Tier == gpu.Cgroup {
		b.Limit = s.Memory
	}
	expect, err := json.Marshal(b.Expect)
	if err != nil {
		return b, fmt.Errorf("bind %s: %w", s, err)
	}
	b.Env[visibleEnv], b.Env[expectEnv], b.Env[control.GPUDirEnv] = visible, string(expect), control.GPUDir
	return b, nil
}

// nameForm is what an engine takes for the name of a device.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$`)

// equip finds the device nodes and the driver's files.
func (h *Host) equip(b *gpu.Binding, dev gpu.Device, in *gpu.Instance) (err error) {
	if b.Devices, err = h.nodes(dev, in); err != nil {
		return err
	}
	version, err := h.version()
	if err != nil {
		return err
	}
	b.Expect.Driver = version
	b.Mounts, err = h.files(version)
	return err
}

// With adds what an MPS daemon, or another go-between, wants its clients to have. It changes nothing of b itself.
func With(b gpu.Binding, env map[string]string, mounts []gpu.Mount) gpu.Binding {
	b.Env, b.Mounts = maps.Clone(b.Env), slices.Concat(b.Mounts, mounts)
	maps.Copy(b.Env, env)
	return b
}

// path returns where a path of the driver's own world lies on this host.
func (h *Host) path(name string) string {
	if h.Root == "" {
		return name
	}
	return filepath.Join(h.Root, name)
}
