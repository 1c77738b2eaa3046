package selftest

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

var runtimeName = regexp.MustCompile(`^libcudart\.so\.([0-9]{1,3})(?:\.([0-9]{1,3}))?(?:\.[0-9]+)*$`)

// runtimeDirs are where images keep the CUDA runtime.
func runtimeDirs() []string {
	return []string{
		"/usr/local/cuda*/lib64", "/usr/local/cuda*/targets/*/lib", "/usr/lib64", "/usr/lib/*-linux-gnu",
		"/opt/conda/lib",
		"/opt/conda/lib/python3*/site-packages/nvidia/*/lib", "/usr/local/lib/python3*/*-packages/nvidia/*/lib",
		"/usr/lib/python3*/*-packages/nvidia/*/lib",
	}
}

// cudaRuntime checks that the CUDA runtimes of the image are not of a newer major version than the driver serves. That
// is the image's matter, and not the slice's: a warning.
func (b *bench) cudaRuntime() outcome {
	if b.cuda == nil {
		return skipped("the CUDA driver did not start")
	}
	driver, err := b.cuda.Version()
	if err != nil {
		return failed("", "%v", err)
	}
	dirs := runtimeDirs()
	for _, name := range []string{"CONDA_PREFIX", "VIRTUAL_ENV"} {
		if v, set := b.env(name); set {
			dirs = append(dirs, v+"/lib", v+"/lib/python3*/site-packages/nvidia/*/lib")
		}
	}
	if v, set := b.env("LD_LIBRARY_PATH"); set {
		dirs = append(dirs, strings.Split(v, ":")...)
	}
	newest, where := b.newestRuntime(dirs)
	switch {
	case where == "":
		return skipped("there is none in the usual places of an image")
	case newest/1000 > driver/1000:
		return warned(
			"use an image with an older CUDA, or a node with a newer driver", "%s: the driver serves up to CUDA %d.%d",
			where, driver/1000, driver%1000/10,
		)
	default:
		return ok("%s: the driver serves up to CUDA %d.%d", where, driver/1000, driver%1000/10)
	}
}

// newestRuntime returns the newest runtime library and its version, as the driver writes its own.
func (b *bench) newestRuntime(dirs []string) (newest int, where string) {
	for _, dir := range dirs {
		found, _ := filepath.Glob(b.path(filepath.Join("/", dir)) + "/libcudart.so.*")
		for _, f := range found {
			m := runtimeName.FindStringSubmatch(filepath.Base(f))
			if m == nil {
				continue
			}
			major, _ := strconv.Atoi(m[1])
			minor, _ := strconv.Atoi(m[2]) // none: 0
			if v := major*1000 + minor*10; v > newest {
				newest, where = v, strings.TrimPrefix(f, b.path(""))
			}
		}
	}
	return newest, where
}
