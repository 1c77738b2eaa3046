//go:build cgo

package nvml

import (
	"context"
	"fmt"
	"path"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"slipway/internal/gpu"
)

// SetMIG switches MIG mode. The library accepts the wish and says apart from that whether it has come about: both are
// looked at.
func (d *Driver) SetMIG(ctx context.Context, uuid string, on bool) error {
	c, h, err := d.card(ctx, uuid)
	if err != nil {
		return err
	}
	c.change.Lock()
	defer c.change.Unlock()
	if is, err := cut(c, h); err != nil || is == on {
		return err
	}
	d.quiet(c)
	defer d.resume()
	activation, ret := h.SetMigMode(migMode(on))
	if err := fault(ret, "set the MIG mode of GPU %s", uuid); err != nil {
		return err
	}
	if err := fault(activation, "switch the MIG mode of GPU %s", uuid); err != nil {
		if activation == nvml.ERROR_IN_USE { // else the wish would come about at some later reset, unasked
			_, _ = h.SetMigMode(migMode(!on))
		}
		return err
	}
	if is, err := cut(c, h); err != nil || is == on {
		return err
	}
	return fmt.Errorf("MIG mode of GPU %s: %w", uuid, gpu.ErrPending)
}

func migMode(on bool) int {
	if on {
		return nvml.DEVICE_MIG_ENABLE
	}
	return nvml.DEVICE_MIG_DISABLE
}

// quiet lets go of what could count as a use of the GPU.
func (d *Driver) quiet(c *card) {
	c.meter.forget()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.deafen()
}

// resume takes up what quiet has let go of.
func (d *Driver) resume() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.listen()
}

// SetExclusive sets the compute mode.
func (d *Driver) SetExclusive(ctx context.Context, uuid string, on bool) error {
	c, h, err := d.card(ctx, uuid)
	if err != nil {
		return err
	}
	c.change.Lock()
	defer c.change.Unlock()
	mode := nvml.COMPUTEMODE_DEFAULT
	if on {
		mode = nvml.COMPUTEMODE_EXCLUSIVE_PROCESS
	}
	return fault(h.SetComputeMode(mode), "set the compute mode of GPU %s", uuid)
}

// LimitMemory sets the hard limit of a cgroup and no reservation: one that outlived its container would be lost to all
// others.
func (d *Driver) LimitMemory(ctx context.Context, uuid, cgroup string, bytes int64) error {
	c, h, err := d.card(ctx, uuid)
	if err != nil {
		return err
	}
	on, err := cut(c, h)
	if err != nil {
		return err
	}
	if on || !d.has("nvmlDeviceSetMemoryLimits_v1") {
		return fmt.Errorf("limit the memory of a cgroup on GPU %s: %w", uuid, gpu.ErrNotSupported)
	}
	memory, ret := h.GetMemoryInfo()
	if err := fault(ret, "ask GPU %s for its memory", uuid); err != nil {
		return err
	}
	hard := min(uint64(max(bytes, 0)), memory.Total) // the library takes no larger one
	if bytes <= 0 {
		hard = nvml.DEVICE_MEMORY_LIMIT_MAX
	}
	ret = h.SetMemoryLimits_v1(path.Join("/sys/fs/cgroup", cgroup), 0, hard)
	if ret == nvml.ERROR_OPERATING_SYSTEM && bytes <= 0 { // the cgroup is gone, and its limit with it
		return nil
	}
	return fault(ret, "limit %s on GPU %s", cgroup, uuid)
}
