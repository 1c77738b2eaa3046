package selftest

import (
	"errors"
	"fmt"
	"strings"

	"slipway/internal/gpu"
	"slipway/internal/gpu/cuda"
	"slipway/internal/units"
)

// driverLoads checks that the driver library loads, has what is needed, and starts.
func (b *bench) driverLoads() outcome {
	d, err := cuda.Open(b.cfg.LibraryDir)
	switch {
	case errors.Is(err, cuda.ErrNoLibrary):
		b.missing = true
		return skipped("%v", err)
	case cuda.Is(err, cuda.CodeNoDevice):
		return failed(
			"check CUDA_VISIBLE_DEVICES, and that the device files are those of the slice", "%v: %s", err, b.visible(),
		)
	case cuda.Is(err, cuda.CodeMismatch):
		return failed(mismatchRemedy, "%v", err)
	case err != nil:
		return failed(
			"look into the node's kernel log for NVRM and Xid; check that the binding has all libraries of the driver",
			"%v", err,
		)
	}
	version, err := d.Version()
	if err != nil {
		return failed("", "%v", err)
	}
	devices, err := d.Devices()
	if err != nil {
		return failed("look into the node's kernel log for NVRM and Xid", "%v", err)
	}
	b.cuda, b.devices = d, devices
	return ok("CUDA %d.%d", version/1000, version%1000/10)
}

func (b *bench) visible() string {
	v, set := b.env("CUDA_VISIBLE_DEVICES")
	if !set {
		return "CUDA_VISIBLE_DEVICES is not set"
	}
	return fmt.Sprintf("CUDA_VISIBLE_DEVICES is %q", v)
}

// rightDevices checks that the driver shows the leased devices and no others.
func (b *bench) rightDevices() outcome {
	if b.cuda == nil {
		return skipped("the CUDA driver did not start")
	}
	e := b.cfg.Expect
	if e == nil {
		return ok("%s", b.names())
	}
	if len(b.devices) != len(e.UUIDs) {
		return failed(
			bindRemedy, "%d devices are shown (%s) where %d are leased; %s", len(b.devices), b.names(), len(e.UUIDs),
			b.visible(),
		)
	}
	if !b.cuda.Instances && b.instances() > 0 {
		return skipped("this driver does not tell the UUIDs of MIG instances")
	}
	for _, d := range b.devices {
		if !leased(d.UUID, e.UUIDs) {
			return failed(bindRemedy, "%s is shown where %s is leased", d.UUID, strings.Join(e.UUIDs, " "))
		}
	}
	return ok("%s", b.names())
}

func (b *bench) names() string {
	if len(b.devices) == 0 {
		return "none"
	}
	var all []string
	for _, d := range b.devices {
		all = append(all, fmt.Sprintf("%s %s", d.Name, d.UUID))
	}
	return strings.Join(all, ", ")
}

func leased(u cuda.UUID, uuids []string) bool {
	for _, l := range uuids {
		if u.Is(l) {
			return true
		}
	}
	return false
}

// processors checks the number of processors: of an instance or a whole GPU it is exact, of a share at most what was
// leased, but for the pairs in which the hardware gives them.
func (b *bench) processors() outcome {
	if o, none := b.without(); none {
		return o
	}
	e := b.cfg.Expect
	if e == nil || e.SMs == 0 {
		return ok("%d", b.devices[0].SMs)
	}
	const pair = 2
	for _, d := range b.devices {
		switch {
		case e.Tier == gpu.Hardware && d.SMs != e.SMs:
			return failed("the device is not the one that was leased", "%d where %d are leased", d.SMs, e.SMs)
		case d.SMs > e.SMs+pair:
			return failed(
				"the share of the processors is not held: check the MPS daemon of the GPU", "%d where %d are leased",
				d.SMs, e.SMs,
			)
		}
	}
	return ok("%d of %d leased", b.devices[0].SMs, e.SMs)
}

// size writes bytes for people.
func size(n int64) string {
	if n < 1<<20 {
		return units.FormatMemory(n)
	}
	return units.FormatMemory(n >> 20 << 20)
}
