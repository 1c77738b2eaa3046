//go:build cgo

package nvml

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"slipway/internal/gpu"
)

// Devices returns the GPUs that answer.
func (d *Driver) Devices(ctx context.Context) ([]gpu.Device, error) {
	present, err := d.present(ctx)
	if err != nil {
		return nil, err
	}
	devices := make([]gpu.Device, 0, len(present))
	for _, c := range present {
		dev, err := d.describe(c)
		if errors.Is(err, gpu.ErrLost) {
			d.log.Warn("a GPU is lost", "gpu", c.uuid, "error", err)
			continue
		}
		if err != nil {
			return nil, err
		}
		devices = append(devices, dev)
	}
	return devices, nil
}

// seen is a card as it was when somebody looked.
type seen struct {
	*card
	index  int
	handle nvml.Device
}

// present looks again, and gives the cards that are there in the order of their indices.
func (d *Driver) present(ctx context.Context) ([]seen, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.look(); err != nil {
		return nil, err
	}
	var found []seen
	for _, c := range d.cards {
		if c.handle != nil {
			found = append(found, seen{c, c.index, c.handle})
		}
	}
	slices.SortFunc(found, func(a, b seen) int { return cmp.Compare(a.index, b.index) })
	return found, nil
}

func (d *Driver) describe(c seen) (gpu.Device, error) {
	dev := gpu.Device{Index: c.index, UUID: c.uuid}
	h := c.handle
	var ret nvml.Return
	if dev.Name, ret = h.GetName(); ret != nvml.SUCCESS {
		return dev, fault(ret, "ask GPU %s for its name", c.uuid)
	}
	if dev.Minor, ret = h.GetMinorNumber(); ret != nvml.SUCCESS {
		return dev, fault(ret, "ask GPU %s for its device file", c.uuid)
	}
	pci, ret := h.GetPciInfo()
	if ret != nvml.SUCCESS {
		return dev, fault(ret, "ask GPU %s for its bus", c.uuid)
	}
	dev.Bus = text(pci.BusId[:])
	major, minor, ret := h.GetCudaComputeCapability()
	if ret != nvml.SUCCESS {
		return dev, fault(ret, "ask GPU %s for its compute capability", c.uuid)
	}
	dev.Capability = fmt.Sprintf("%d.%d", major, minor)
	memory, ret := h.GetMemoryInfo()
	if ret != nvml.SUCCESS {
		return dev, fault(ret, "ask GPU %s for its memory", c.uuid)
	}
	dev.Memory = int64(memory.Total)
	if clock, ret := h.GetMaxClockInfo(nvml.CLOCK_SM); ret == nvml.SUCCESS {
		dev.ClockMHz = int(clock)
	}
	if on, _, ret := h.GetEccMode(); ret == nvml.SUCCESS {
		dev.ECC = on == nvml.FEATURE_ENABLED
	}
	dev.GPM = d.measures(h)
	if cores, ret := h.GetNumGpuCores(); ret == nvml.SUCCESS {
		dev.SMs = cores / coresPerSM(major, minor)
	}
	return dev, d.describeMIG(c, &dev)
}

// describeMIG adds what the GPU can be cut into.
func (d *Driver) describeMIG(c seen, dev *gpu.Device) error {
	current, _, ret := c.handle.GetMigMode()
	if kindOf(ret) == gpu.ErrNotSupported {
		return nil
	}
	if ret != nvml.SUCCESS {
		return fault(ret, "ask GPU %s for its MIG mode", c.uuid)
	}
	dev.MIGCapable, dev.MIGEnabled = true, current == nvml.DEVICE_MIG_ENABLE
	if family, ret := c.handle.GetArchitecture(); ret == nvml.SUCCESS {
		dev.MIGReset = family <= nvml.DEVICE_ARCH_AMPERE
	}
	counted := dev.SMs > 0 // the driver may count no cores of a GPU that is cut
	profiles, err := d.profiles(c.card, c.handle)
	if errors.Is(err, gpu.ErrDenied) {
		d.log.Warn("only root may know what a GPU can be cut into", "gpu", c.uuid, "error", err)
		return nil
	}
	if err != nil {
		return err
	}
	for _, p := range profiles {
		dev.Profiles = append(dev.Profiles, p.Profile)
		for _, at := range p.Placements {
			dev.Slots = max(dev.Slots, at.Start+at.Size)
		}
		if !counted {
			dev.SMs = max(dev.SMs, p.SMs)
		}
	}
	return nil
}

// coresPerSM is the one number that the library does not tell.
func coresPerSM(major, minor int) int {
	if major < 8 || major == 8 && minor == 0 {
		return 64
	}
	return 128
}

// text makes a string of a C one.
func text(chars []int8) string {
	var b strings.Builder
	for _, c := range chars {
		if c == 0 {
			break
		}
		b.WriteByte(byte(c))
	}
	return b.String()
}
