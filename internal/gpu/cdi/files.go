package cdi

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/internal/gpu"
)

// The driver's libraries have its version at the end of their names, and links of other names beside them. They are put
// below control.GPULibDir, each name by a mount of its own, since a container has nobody to make links. That directory
// is on a file system of memory and in no image's search path; the agent appends it to LD_LIBRARY_PATH. No directory is
// in the search path of all distributions, a mount in one of an image's own would leave an empty file there behind in
// the workload's changes, and to run ldconfig takes root's rights inside.

const libcuda = "libcuda.so.1"

// programs are the driver's that are of use inside.
func programs() []string { return []string{"nvidia-smi"} }

// wanted reports whether a file is a library of the driver that computing may need. It is an open list: a new driver
// splits its compiler or its allocator into new libraries, and without one of them no kernel is loaded. What is left
// out is for screens.
func wanted(name string) bool {
	if !strings.HasPrefix(name, "libcuda") && !strings.HasPrefix(name, "libnvidia-") &&
		!strings.HasPrefix(name, "libnvcuvid.") {
		return false
	}
	for _, screen := range []string{"gl", "egl", "tls", "fbc", "gtk", "wayland", "rtcore", "vulkan", "vksc", "ngx", "present", "api", "container", "glvkspirv"} {
		if strings.HasPrefix(name, "libnvidia-"+screen) {
			return false
		}
	}
	return true
}

var (
	moduleVersion = regexp.MustCompile(`(?m)^NVRM version:.*?\s([0-9]+(?:\.[0-9]+)+)\s`)
	plainVersion  = regexp.MustCompile(`^[0-9]+(\.[0-9]+)+$`)
)

// version returns that of the driver which the kernel has loaded.
func (h *Host) version() (string, error) {
	text, err := os.ReadFile(h.path("/sys/module/nvidia/version"))
	if v := strings.TrimSpace(string(text)); err == nil && plainVersion.MatchString(v) {
		return v, nil
	}
	text, err = os.ReadFile(h.path("/proc/driver/nvidia/version"))
	if err != nil {
		return "", errs.New(errs.Missing, "no NVIDIA driver is loaded: %w", err).With("load it: `modprobe nvidia nvidia-uvm`")
	}
	m := moduleVersion.FindSubmatch(text)
	if m == nil {
		return "", errs.New(errs.Unavailable, "the driver's version cannot be read from /proc/driver/nvidia/version")
	}
	return string(m[1]), nil
}

// files returns the mounts of the driver's libraries and programs.
func (h *Host) files(version string) ([]gpu.Mount, error) {
	dirs, err := h.libraryDirs(version)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	var mounts []gpu.Mount
	for _, dir := range dirs {
		entries, err := os.ReadDir(h.path(dir))
		if err != nil {
			return nil, fmt.Errorf("look for the driver's libraries: %w", err)
		}
		for _, e := range entries {
			real, err := h.resolve(path.Join(dir, e.Name()))
			if err != nil || seen[e.Name()] || !wanted(e.Name()) || !strings.HasSuffix(real, ".so."+version) {
				continue // a link to nowhere, or to another driver's
			}
			seen[e.Name()] = true
			mounts = append(mounts, gpu.Mount{Source: h.path(real), Target: path.Join(control.GPULibDir, e.Name())})
		}
	}
	slices.SortFunc(mounts, func(a, b gpu.Mount) int { return strings.Compare(a.Target, b.Target) })
	for _, name := range programs() {
		if real, err := h.resolve("/usr/bin/" + name); err == nil {
			mounts = append(mounts, gpu.Mount{Source: h.path(real), Target: path.Join(control.GPUBinDir, name)})
		}
	}
	return mounts, nil
}

// libraryDirs returns the directory of the loaded driver's libcuda, and the one in which the linker finds it.
func (h *Host) libraryDirs(version string) ([]string, error) {
	var others []string
	for _, candidate := range h.candidates() {
		real, err := h.resolve(candidate)
		if err != nil {
			continue
		}
		if strings.HasSuffix(real, ".so."+version) {
			return slices.Compact([]string{path.Dir(real), path.Dir(candidate)}), nil
		}
		others = append(others, real)
	}
	if len(others) > 0 {
		return nil, errs.New(
			errs.Conflict, "driver %s is loaded, and the libraries are another's: %s", version,
			strings.Join(others, ", "),
		).With("an update waits for a restart of this host, or for the kernel modules to be loaded anew")
	}
	return nil, errs.New(errs.Missing, "driver %s is loaded, and its library %s is not on this host", version, libcuda).
		With("install the driver's libraries of that version")
}

// candidates are the paths at which libcuda may be, the linker's own first.
func (h *Host) candidates() []string {
	var paths []string
	if data, err := os.ReadFile(h.path("/etc/ld.so.cache")); err == nil {
		for _, l := range parseCache(data) {
			if l.Name == libcuda && l.machine() == runtime.GOARCH {
				paths = append(paths, l.Path)
			}
		}
	}
	triplet := map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}[runtime.GOARCH]
	for _, dir := range []string{"/usr/lib/" + triplet, "/usr/lib/" + triplet + "/nvidia/current", "/usr/lib64", "/usr/lib64/nvidia", "/usr/lib", "/lib64"} {
		paths = append(paths, path.Join(dir, libcuda))
	}
	return paths
}

// mostLinks is how many links may lead to a file.
const mostLinks = 32

// resolve follows all links of a path within the root, and gives the path of the file below it. It must be there.
func (h *Host) resolve(name string) (string, error) {
	done, rest := "/", strings.Split(name, "/")
	for links := 0; len(rest) > 0; {
		part := rest[0]
		rest = rest[1:]
		next := path.Join(done, part)
		target, err := os.Readlink(h.path(next))
		switch {
		case err == nil && links >= mostLinks:
			return "", errs.New(errs.Invalid, "%s: too many links", name)
		case err == nil:
			links++
			if path.IsAbs(target) {
				done = "/"
			}
			rest = append(strings.Split(target, "/"), rest...)
		case errors.Is(err, fs.ErrNotExist):
			return "", err
		default:
			done = next // no link
		}
	}
	info, err := os.Lstat(h.path(filepath.Clean(done)))
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", errs.New(errs.Invalid, "%s is no file", name)
	}
	return done, nil
}
