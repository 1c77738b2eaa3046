package inventory

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// leastDrivers is the least Linux driver of each CUDA version, newest first. From 11 on a driver that runs one minor
// version runs all of its major version ("minor version compatibility"). Source: NVIDIA's CUDA Toolkit release notes,
// "CUDA Toolkit and Minimum Required Driver Version for CUDA Minor Version Compatibility", and for versions before 11
// "CUDA Toolkit and Corresponding Driver Versions".
func leastDrivers() []struct{ cuda, driver string } {
	return []struct{ cuda, driver string }{
		{"13", "580"}, {"12", "525.60.13"}, {"11", "450.80.02"},
		{"10.2", "440.33"}, {"10.1", "418.39"}, {"10.0", "410.48"}, {"9.2", "396.26"}, {"9.1", "390.46"},
		{"9.0", "384.81"},
	}
}

// leastDriver returns the least driver of a CUDA version, "" where it is not known.
func leastDriver(version string) string {
	for _, row := range leastDrivers() {
		if version == row.cuda || strings.HasPrefix(version, row.cuda+".") {
			return row.driver
		}
	}
	return ""
}

var (
	cudart      = regexp.MustCompile(`^libcudart(?:-[0-9a-f]+)?\.so\.(\d+(?:\.\d+)*)$`)
	localCUDA   = regexp.MustCompile(`\+(?:[a-z0-9.]*\.)?cu(\d{2})(\d)(?:\D|$)`)
	runtimeName = regexp.MustCompile(`^(?:nvidia-cuda-runtime(?:-cu\d+)?|cudatoolkit|cuda-version|cuda-cudart|pytorch-cuda|cuda-cudart-\d+-\d+|libcudart[\d.]+)$`)
	majorName   = regexp.MustCompile(`^(?:cupy-cuda(\d\d)x|jax-cuda(\d\d)-plugin)$`)
	leading     = regexp.MustCompile(`^\d+(?:\.\d+)*`)
)

// cudaOfPackage returns the version of CUDA that a package brings or was built for, "" for most.
func cudaOfPackage(p Package) string {
	if m := localCUDA.FindStringSubmatch(p.Version); m != nil && p.Manager == Pip {
		return m[1] + "." + m[2]
	}
	name := normal(p)
	if m := majorName.FindStringSubmatch(name); m != nil {
		return m[1] + m[2]
	}
	if !runtimeName.MatchString(name) {
		return ""
	}
	return twoNumbers(leading.FindString(p.Version))
}

// cudaOfFile returns the version in a library's name. All of CUDA 11 calls its library libcudart.so.11.0, so that says
// 11 alone.
func cudaOfFile(name string) string {
	m := cudart.FindStringSubmatch(name)
	switch {
	case m == nil:
		return ""
	case m[1] == "11.0":
		return "11"
	}
	return twoNumbers(m[1])
}

// twoNumbers returns "12.8" of "12.8.90". An absurd number is no version.
func twoNumbers(v string) string {
	v = minor(v)
	if len(v) > 8 {
		return ""
	}
	return v
}

// cuda sums up what was found. Packages are known by now.
func (l *looker) cuda(libraries []place) {
	var c CUDA
	add := func(version, what, at string) {
		if version != "" {
			c.Found = append(c.Found, CUDAFound{Version: version, What: what, Path: at})
		}
	}
	for _, p := range l.out.Packages {
		add(cudaOfPackage(p), p.Name+" "+p.Version, p.Path)
	}
	for _, lib := range libraries {
		add(cudaOfFile(path.Base(lib.path)), text(path.Base(lib.path)), text(path.Dir(lib.path)))
	}
	if len(c.Found) == 0 {
		return
	}
	slices.SortFunc(c.Found, func(a, b CUDAFound) int {
		return cmp.Or(
			compareVersions(a.Version, b.Version), strings.Compare(a.What, b.What), strings.Compare(a.Path, b.Path),
		)
	})
	c.Found = slices.Compact(c.Found)
	c.Version = c.Found[len(c.Found)-1].Version
	c.LeastDriver = leastDriver(c.Version)
	l.out.CUDA = &c
}

// compareVersions orders dotted numbers.
func compareVersions(a, b string) int {
	return slices.CompareFunc(strings.Split(a, "."), strings.Split(b, "."), func(x, y string) int {
		m, _ := strconv.Atoi(x)
		n, _ := strconv.Atoi(y)
		return m - n
	})
}
