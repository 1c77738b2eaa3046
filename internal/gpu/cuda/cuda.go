// Package cuda calls NVIDIA's driver library (libcuda) for the self-test of a slice and for making load: devices,
// memory, copies, and two small kernels in PTX, which the driver compiles.
//
// It promises that a missing library or function is an error and never a panic, that each error names the call and the
// driver's own name for what went wrong, and that what a Context holds is given back when it is closed. A program that
// uses it needs a libc, and a crash in NVIDIA's library ends it: it belongs in the helper program alone.
package cuda

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"slipway/internal/gpu/library"
)

// LibraryName is the driver's library.
const LibraryName = "libcuda.so.1"

// ErrNoLibrary is what Open fails with when there is no driver library.
var ErrNoLibrary = library.ErrNotFound

// Error is a call that the driver refused.
type Error struct {
	Call string // such as cuMemAlloc_v2
	Code int
	Name string // such as CUDA_ERROR_OUT_OF_MEMORY
}

// Error names the call and the driver's name for the error.
func (e *Error) Error() string { return fmt.Sprintf("%s: %s (%d)", e.Call, e.Name, e.Code) }

// Codes of the driver that callers tell apart.
const (
	CodeOutOfMemory = 2
	CodeNoDevice    = 100
	CodeUnavailable = 46  // another process has the device to itself
	CodeMismatch    = 803 // library and kernel module are of different versions
)

// Is reports whether err is the driver's refusal with one of these codes.
func Is(err error, codes ...int) bool {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return false
	}
	for _, c := range codes {
		if e.Code == c {
			return true
		}
	}
	return false
}

// Driver is the loaded driver library.
type Driver struct {
	fn        functions
	Instances bool // Device.UUID is a MIG instance's own, where the device is one: since R470
}

// Open loads the library, from dir or where the dynamic loader looks, and initialises the driver.
func Open(dir string) (*Driver, error) {
	l, err := library.Open(dir, LibraryName)
	if err != nil {
		return nil, err
	}
	d := &Driver{}
	if err := d.fn.bind(l); err != nil {
		return nil, err
	}
	d.Instances = l.TryBind("cuDeviceGetUuid_v2", &d.fn.deviceGetUUID)
	if !d.Instances {
		if err := l.Bind("cuDeviceGetUuid", &d.fn.deviceGetUUID); err != nil {
			return nil, err
		}
	}
	return d, d.check("cuInit", d.fn.init(0))
}

// Version returns the newest CUDA that the driver serves: 13000 is 13.0.
func (d *Driver) Version() (int, error) {
	var v int32
	err := d.check("cuDriverGetVersion", d.fn.driverGetVersion(&v))
	return int(v), err
}

// UUID is a device's, as the driver keeps it: it does not say of what kind the device is.
type UUID [16]byte

// String writes it with its dashes and without a prefix.
func (u UUID) String() string {
	h := hex.EncodeToString(u[:])
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
}

// Is reports whether text, as leases and NVML write UUIDs ("GPU-...", "MIG-...", and of old drivers "MIG-GPU-.../1/0"),
// is u.
func (u UUID) Is(text string) bool {
	text = strings.TrimPrefix(strings.TrimPrefix(text, "MIG-"), "GPU-")
	text, _, _ = strings.Cut(text, "/")
	return strings.EqualFold(text, u.String())
}

// Device is a GPU or MIG instance that the driver shows to this process.
type Device struct {
	Name       string
	UUID       UUID
	Memory     int64 // bytes
	SMs        int
	Capability string // such as "9.0"

	driver *Driver
	number int32
}

// What cuDeviceGetAttribute is asked for.
const (
	attributeSMs   = 16
	attributeMajor = 75
	attributeMinor = 76
)

// Devices returns the devices that this process sees.
func (d *Driver) Devices() ([]Device, error) {
	var n int32
	if err := d.check("cuDeviceGetCount", d.fn.deviceGetCount(&n)); err != nil {
		return nil, err
	}
	var devices []Device
	for i := range n {
		dev, err := d.device(i)
		if err != nil {
			return nil, fmt.Errorf("device %d: %w", i, err)
		}
		devices = append(devices, dev)
	}
	return devices, nil
}

func (d *Driver) device(i int32) (Device, error) {
	dev := Device{driver: d}
	var name [256]byte
	var memory uint64
	var sms, major, minor int32
	for _, c := range []struct {
		call string
		ask  func() int32
	}{
		{"cuDeviceGet", func() int32 { return d.fn.deviceGet(&dev.number, i) }},
		{"cuDeviceGetName", func() int32 { return d.fn.deviceGetName(&name[0], int32(len(name)), dev.number) }},
		{"cuDeviceGetUuid", func() int32 { return d.fn.deviceGetUUID(&dev.UUID[0], dev.number) }},
		{"cuDeviceTotalMem_v2", func() int32 { return d.fn.deviceTotalMem(&memory, dev.number) }},
		{"cuDeviceGetAttribute", func() int32 { return d.fn.deviceGetAttribute(&sms, attributeSMs, dev.number) }},
		{"cuDeviceGetAttribute", func() int32 { return d.fn.deviceGetAttribute(&major, attributeMajor, dev.number) }},
		{"cuDeviceGetAttribute", func() int32 { return d.fn.deviceGetAttribute(&minor, attributeMinor, dev.number) }},
	} {
		if err := d.check(c.call, c.ask()); err != nil {
			return dev, err
		}
	}
	dev.Name, dev.Memory, dev.SMs = text(name[:]), int64(memory), int(sms)
	dev.Capability = fmt.Sprintf("%d.%d", major, minor)
	return dev, nil
}

// check makes an error of a code that is none of success.
func (d *Driver) check(call string, code int32) error {
	if code == 0 {
		return nil
	}
	e := &Error{Call: call, Code: int(code), Name: "an error unknown to the driver"}
	var name *byte
	if d.fn.getErrorName(code, &name) == 0 && name != nil {
		e.Name = text(unsafe.Slice(name, length(name)))
	}
	return e
}

// length is strlen, within reason.
func length(p *byte) int {
	n := 0
	for n < 256 && *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return n
}

// text is a C string in b.
func text(b []byte) string {
	s, _, _ := strings.Cut(string(b), "\x00")
	return s
}
