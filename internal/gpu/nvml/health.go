//go:build cgo

package nvml

import (
	"context"
	"errors"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"slipway/internal/gpu"
)

// Health says what speaks against a GPU. One that has been seen before and does not answer now is lost, which is no
// error.
func (d *Driver) Health(ctx context.Context, uuid string) (gpu.Health, error) {
	c, h, err := d.card(ctx, uuid)
	if errors.Is(err, gpu.ErrLost) {
		xid, n := d.xid(uuid)
		return gpu.Health{Lost: true, Xid: xid, Xids: n, Reason: err.Error()}, nil
	}
	if err != nil {
		return gpu.Health{}, err
	}
	health := gpu.Health{}
	health.Xid, health.Xids = d.xid(uuid)
	if _, ret := h.GetMemoryInfo(); ret != nvml.SUCCESS && kindOf(ret) != gpu.ErrNotSupported {
		health.Lost, health.Reason = true, fault(ret, "ask GPU %s for its memory", c.uuid).Error()
		return health, nil
	}
	if t, ret := h.GetTemperature(nvml.TEMPERATURE_GPU); ret == nvml.SUCCESS {
		health.Temperature = int(t)
	}
	if n, ret := h.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC); ret == nvml.SUCCESS {
		health.ECC = int64(n)
	}
	if _, _, pending, failed, ret := h.GetRemappedRows(); ret == nvml.SUCCESS {
		health.RowsPending = pending || failed
		if failed {
			health.Reason = "a row of its memory could not be remapped"
		}
	}
	return health, nil
}

// events holds the library's queue of critical errors. All is guarded by Driver.mu.
type events struct {
	set   nvml.EventSet // nil: not listening
	xids  map[string]int
	count map[string]int
}

// listen has the library queue critical errors; a GPU that knows none is left out. d.mu is held.
func (d *Driver) listen() {
	set, ret := d.lib.EventSetCreate()
	if ret != nvml.SUCCESS {
		d.log.Warn("critical errors of GPUs will not be noticed", "error", fault(ret, "listen to events"))
		return
	}
	d.events.set = set
	for _, c := range d.cards {
		if c.handle == nil {
			continue
		}
		if ret := c.handle.RegisterEvents(nvml.EventTypeXidCriticalError, set); ret != nvml.SUCCESS {
			d.log.Warn(
				"critical errors of a GPU will not be noticed", "gpu", c.uuid, "error", fault(ret, "listen to events"),
			)
		}
	}
}

// deafen takes in what is queued and ends the queue. d.mu is held.
func (d *Driver) deafen() {
	if d.events.set == nil {
		return
	}
	d.drain()
	_ = d.events.set.Free()
	d.events.set = nil
}

// drain takes the queued errors in. d.mu is held.
func (d *Driver) drain() {
	const atOnce = 1000 // a GPU that fails without end must not hold up the rest
	for range atOnce {
		e, ret := d.events.set.Wait(1)
		if ret != nvml.SUCCESS {
			return
		}
		if e.EventType != nvml.EventTypeXidCriticalError || harmless(e.EventData) || e.Device == nil {
			continue
		}
		if uuid, ret := e.Device.GetUUID(); ret == nvml.SUCCESS {
			d.events.xids[uuid] = int(e.EventData)
			d.events.count[uuid]++
			d.log.Error(
				"a GPU reports a critical error", "gpu", uuid, "xid", e.EventData, "gi", e.GpuInstanceId, "ci",
				e.ComputeInstanceId,
			)
		}
	}
}

// xid returns the last critical error of a GPU, 0 for none, and how many there were.
func (d *Driver) xid(uuid string) (last, count int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.events.set != nil {
		d.drain()
	}
	return d.events.xids[uuid], d.events.count[uuid]
}

// harmless are the errors for which a program is to blame, or that say what Health tells better: 63 is a row that was
// remapped.
func harmless(xid uint64) bool {
	return slices.Contains([]uint64{13, 31, 43, 45, 63, 68, 92, 109}, xid)
}
