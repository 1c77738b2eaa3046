package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/internal/gpu"
	"slipway/spawner"
)

// A job sees no device of this host but those of its slice, however Apptainer is set up: Enter puts a directory of its
// own in place of /dev, before it gives up root's rights, which has what any program needs and the nodes of the slice.
// Apptainer binds them from there by their paths. Its option --device (1.5 and later) would do no more: it applies
// nodes, mounts and environment, and no hooks. Driver files come as one directory, which lies below control.RunDir as
// in a session.

const (
	devices    = "/dev"
	stageGPU   = stage + "/gpu"
	stageExtra = stage + "/extra"
)

// usualDevices are the parts of /dev that every job has; fuse is for Apptainer, which mounts the image by it.
func usualDevices() []string {
	return []string{"null", "zero", "full", "random", "urandom", "tty", "ptmx", "fuse", "pts", "shm"}
}

// slice is what a job's slice of a GPU consists of; nothing when it has none.
func (p plan) slice() gpu.Binding {
	if p.GPU == nil {
		return gpu.Binding{}
	}
	return *p.GPU
}

// deviceBindings furnish the job's own /dev.
func (p plan) deviceBindings() []binding {
	var all []binding
	for _, name := range usualDevices() {
		at := filepath.Join(devices, name)
		if _, err := os.Stat(at); err == nil {
			all = append(all, binding{from: at, to: at, device: true})
		}
	}
	for _, d := range p.slice().Devices {
		from := d.Host
		if from == "" {
			from = d.Path
		}
		all = append(all, binding{from: from, to: d.Path, device: true})
	}
	return all
}

// gpuBindings put the files that come with a slice onto the stage.
func (p plan) gpuBindings() []binding {
	var all []binding
	for i, m := range p.slice().Mounts {
		all = append(all, binding{from: m.Source, to: staged(i, m), readOnly: !m.Write})
	}
	return all
}

// staged is where a mount lies on the stage: those of the driver together, as they lie inside.
func staged(i int, m gpu.Mount) string {
	if rel, below := strings.CutPrefix(m.Target, control.GPUDir+"/"); below {
		return filepath.Join(stageGPU, rel)
	}
	return fmt.Sprintf("%s%d", stageExtra, i)
}

// hasDriver reports whether files of the driver come with the slice.
func (p plan) hasDriver() bool {
	return slices.ContainsFunc(
		p.slice().Mounts, func(m gpu.Mount) bool { return strings.HasPrefix(m.Target, control.GPUDir+"/") },
	)
}

// gpuArgs are Apptainer's options for the slice. It binds devices only to where they are.
func (p plan) gpuArgs() []string {
	var args []string
	for _, d := range p.slice().Devices {
		args = append(args, "--bind", d.Path)
	}
	if p.hasDriver() {
		args = append(args, "--bind", stageGPU+":"+control.GPUDir+":ro")
	}
	for i, m := range p.slice().Mounts {
		if at := staged(i, m); !strings.HasPrefix(at, stageGPU+"/") {
			mode := ":ro"
			if m.Write {
				mode = ""
			}
			args = append(args, "--bind", at+":"+m.Target+mode)
		}
	}
	return args
}

// gpuEnv is the environment that comes with the slice, or that hides all GPUs.
func (p plan) gpuEnv() map[string]string {
	env := gpu.Hidden()
	maps.Copy(env, p.slice().Env)
	return env
}

// checkSlice refuses paths that Apptainer's options cannot express.
func checkSlice(g gpu.Binding) error {
	var paths []string
	for _, d := range g.Devices {
		if !strings.HasPrefix(d.Path, devices+"/") {
			return errs.Bad("gpu device", d.Path, "a path below "+devices)
		}
		paths = append(paths, d.Path)
	}
	for _, m := range g.Mounts {
		paths = append(paths, m.Target)
	}
	for _, path := range paths {
		if !filepath.IsAbs(path) || filepath.Clean(path) != path || strings.ContainsAny(path, ":,\\\"'\n\r\t\x00") {
			return errs.Bad("gpu path", path, "an absolute path without colons, commas, quotes and blanks")
		}
	}
	return nil
}

// ownDevices puts an empty /dev in place of the host's, with the links that programs expect.
func ownDevices() error {
	if err := unix.Mount("slipway", devices, "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=755,size=1m"); err != nil {
		return fmt.Errorf("make the job's own %s: %w", devices, err)
	}
	var all error
	for name, target := range map[string]string{"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"} {
		if err := os.Symlink(target, filepath.Join(devices, name)); err != nil && !errors.Is(err, fs.ErrExist) {
			all = errors.Join(all, err)
		}
	}
	return all
}

// Holder returns the job that a process of this host belongs to, by its file /proc/<pid>/cgroup; empty when it is none
// of ours.
func (b *Backend) Holder(cgroup string) spawner.ID {
	for line := range strings.Lines(cgroup) {
		fields := strings.SplitN(strings.TrimRight(line, "\n"), ":", 3)
		if len(fields) < 3 {
			continue
		}
		rest, below := strings.CutPrefix(fields[2], "/"+b.groups.Parent+"/")
		name, _, _ := strings.Cut(rest, "/")
		if below && validID.MatchString(name) {
			return spawner.ID(name)
		}
	}
	return ""
}

// Cgroup returns the path, below the hierarchy's mount point, of the control group that holds all processes of a
// running job.
func (b *Backend) Cgroup(_ context.Context, id spawner.ID) (string, error) {
	if !validID.MatchString(string(id)) {
		return "", errs.Bad("id", id, "a letter, a dash, lower-case letters and digits")
	}
	if !b.groups.Group(string(id)).Exists() {
		return "", errs.New(errs.Conflict, "look for the control group of %s: it does not run", id)
	}
	return path.Join(b.groups.Parent, string(id)), nil
}
