package selftest

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"unsafe"

	"slipway/internal/gpu/library"
)

// nvmlName is NVIDIA's management library.
const nvmlName = "libnvidia-ml.so.1"

// What it answers.
const (
	nvmlNotLoaded = 9  // the kernel module
	nvmlMismatch  = 18 // library and kernel module are of different versions
)

// nvml is the library, as far as the test asks it.
type nvml struct {
	init        func() int32
	end         func() int32
	errorString func(code int32) string
	version     func(text *byte, size uint32) int32
	count       func(n *uint32) int32
	handle      func(i uint32, dev *uintptr) int32
	uuid        func(dev uintptr, text *byte, size uint32) int32

	// What older libraries may lack.
	migCount    func(dev uintptr, n *uint32) int32
	migHandle   func(dev uintptr, i uint32, mig *uintptr) int32
	ecc         func(dev uintptr, kind, since int32, n *uint64) int32
	temperature func(dev uintptr, sensor int32, degrees *uint32) int32
	threshold   func(dev uintptr, which int32, degrees *uint32) int32
	remapped    func(dev uintptr, corrected, uncorrected, pending, failed *uint32) int32
}

// nvmlError is a code that is none of success.
type nvmlError struct {
	code int32
	text string
}

func (e *nvmlError) Error() string { return fmt.Sprintf("%s (%d)", e.text, e.code) }

// openNVML loads and initialises the library.
func openNVML(dir string) (*nvml, error) {
	l, err := library.Open(dir, nvmlName)
	if err != nil {
		return nil, err
	}
	n := &nvml{}
	for _, f := range []struct {
		name string
		f    any
	}{
		{"nvmlInit_v2", &n.init}, {"nvmlShutdown", &n.end}, {"nvmlErrorString", &n.errorString},
		{"nvmlSystemGetDriverVersion", &n.version},
		{"nvmlDeviceGetCount_v2", &n.count}, {"nvmlDeviceGetHandleByIndex_v2", &n.handle},
		{"nvmlDeviceGetUUID", &n.uuid},
	} {
		if err := l.Bind(f.name, f.f); err != nil {
			return nil, err
		}
	}
	l.TryBind("nvmlDeviceGetMaxMigDeviceCount", &n.migCount)
	l.TryBind("nvmlDeviceGetMigDeviceHandleByIndex", &n.migHandle)
	l.TryBind("nvmlDeviceGetTotalEccErrors", &n.ecc)
	l.TryBind("nvmlDeviceGetTemperature", &n.temperature)
	l.TryBind("nvmlDeviceGetTemperatureThreshold", &n.threshold)
	l.TryBind("nvmlDeviceGetRemappedRows", &n.remapped)
	return n, n.check(n.init())
}

func (n *nvml) check(code int32) error {
	if code == 0 {
		return nil
	}
	return &nvmlError{code, n.errorString(code)}
}

// shutdown gives up what the library holds: an open handle keeps an administrator from changing MIG.
func (n *nvml) shutdown() {
	if n != nil {
		_ = n.end()
	}
}

// driverVersion is that of the library, which NVML calls the driver's.
func (n *nvml) driverVersion() (string, error) {
	var b [96]byte
	err := n.check(n.version(&b[0], uint32(len(b))))
	return cString(b[:]), err
}

// handles are the GPUs that this process may use; a GPU that only root may is none of them.
func (n *nvml) handles() ([]uintptr, error) {
	var count uint32
	if err := n.check(n.count(&count)); err != nil {
		return nil, err
	}
	var all []uintptr
	for i := range count {
		var dev uintptr
		if n.handle(i, &dev) == 0 {
			all = append(all, dev)
		}
	}
	return all, nil
}

// migs are the instances of a GPU that this process may use.
func (n *nvml) migs(dev uintptr) []uintptr {
	var count uint32
	if n.migCount == nil || n.migHandle == nil || n.migCount(dev, &count) != 0 {
		return nil
	}
	var all []uintptr
	for i := range count {
		var mig uintptr
		if n.migHandle(dev, i, &mig) == 0 {
			all = append(all, mig)
		}
	}
	return all
}

func (n *nvml) uuidOf(dev uintptr) string {
	var b [96]byte
	if n.uuid(dev, &b[0], uint32(len(b))) != 0 {
		return ""
	}
	return cString(b[:])
}

func cString(b []byte) string {
	s, _, _ := strings.Cut(unsafe.String(&b[0], len(b)), "\x00")
	return strings.Clone(s)
}

var moduleVersion = regexp.MustCompile(`(?m)^NVRM version:.*?\s([0-9]+\.[0-9]+(\.[0-9]+)?)\s`)

// kernelModule returns the version of the kernel's driver; empty when the kernel does not say.
func (b *bench) kernelModule() string {
	text, err := os.ReadFile(b.path("/proc/driver/nvidia/version"))
	if err != nil {
		return ""
	}
	if m := moduleVersion.FindSubmatch(text); m != nil {
		return string(m[1])
	}
	return ""
}

// nvmlLoads checks that the management library is of the driver that the kernel has.
func (b *bench) nvmlLoads() outcome {
	n, err := openNVML(b.cfg.LibraryDir)
	var refused *nvmlError
	switch {
	case errors.Is(err, library.ErrNotFound):
		return skipped("%v", err)
	case errors.As(err, &refused) && refused.code == nvmlMismatch:
		return failed(mismatchRemedy, "%v: the kernel has %s", err, orUnknown(b.kernelModule()))
	case errors.As(err, &refused) && refused.code == nvmlNotLoaded && b.cfg.Expect == nil:
		return failed("load the kernel module: modprobe nvidia", "%v", err)
	case err != nil:
		return failed(bindRemedy, "%v", err)
	}
	b.nvml = n
	version, err := n.driverVersion()
	if err != nil {
		return failed(bindRemedy, "its version: %v", err)
	}
	if module := b.kernelModule(); module != "" && module != version {
		return failed(mismatchRemedy, "the library is of driver %s, the kernel has %s", version, module)
	}
	if e := b.cfg.Expect; e != nil && e.Driver != "" && e.Driver != version {
		return failed(mismatchRemedy, "the library is of driver %s, the node has %s", version, e.Driver)
	}
	return ok("driver %s", version)
}

const mismatchRemedy = "the image brings its own driver library, or the driver was changed while it was in use: take NVIDIA's libraries out of " +
	"the image; on the node reload the module or reboot"

func orUnknown(s string) string {
	if s == "" {
		return "an unknown version"
	}
	return s
}
