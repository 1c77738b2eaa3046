//go:build cgo

package nvml

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"slipway/internal/gpu"
)

// CreateInstance makes a GPU instance, and in it one compute instance over all of it. When the second fails, the first
// is taken back; should that fail too, it stays as a remnant, and Instances says so.
func (d *Driver) CreateInstance(ctx context.Context, uuid, name string, at gpu.Placement) (gpu.Instance, error) {
	c, h, err := d.card(ctx, uuid)
	if err != nil {
		return gpu.Instance{}, err
	}
	c.change.Lock()
	defer c.change.Unlock()
	on, err := cut(c, h)
	if err != nil {
		return gpu.Instance{}, err
	}
	if !on {
		return gpu.Instance{}, fmt.Errorf("MIG mode of GPU %s is off: %w", uuid, gpu.ErrNotSupported)
	}
	profiles, err := d.profiles(c, h)
	if err != nil {
		return gpu.Instance{}, err
	}
	p, err := find(profiles, uuid, name)
	if err != nil {
		return gpu.Instance{}, err
	}
	if !slices.Contains(p.Placements, at) {
		return gpu.Instance{}, fmt.Errorf(
			"%s at slots %d+%d of GPU %s: %w", name, at.Start, at.Size, uuid, gpu.ErrNoRoom,
		)
	}
	gi, ret := h.CreateGpuInstanceWithPlacement(
		&p.info, &nvml.GpuInstancePlacement{Start: uint32(at.Start), Size: uint32(at.Size)},
	)
	if err := fault(ret, "create %s at slot %d of GPU %s", name, at.Start, uuid); err != nil {
		return gpu.Instance{}, err
	}
	if err := fill(gi, p); err != nil {
		return gpu.Instance{}, errors.Join(err, fault(gi.Destroy(), "take the GPU instance back"))
	}
	return d.made(c, h, gi, name)
}

// fill makes the largest compute instance that fits.
func fill(gi nvml.GpuInstance, p profile) error {
	profiles, err := computeProfiles(p.ID, gi)
	if err != nil {
		return err
	}
	var most *nvml.ComputeInstanceProfileInfo
	for i, ci := range profiles {
		if int(ci.SliceCount) <= p.Compute && (most == nil || ci.SliceCount > most.SliceCount) {
			most = &profiles[i]
		}
	}
	if most == nil {
		return fmt.Errorf("%s has no compute instance: %w", p.Name, gpu.ErrNotSupported)
	}
	_, ret := gi.CreateComputeInstance(most)
	return fault(ret, "create the compute instance of %s", p.Name)
}

// made tells what has just been made.
func (d *Driver) made(c *card, h nvml.Device, gi nvml.GpuInstance, name string) (gpu.Instance, error) {
	parts, err := partsOf(c, h, gi, name)
	if err == nil && (len(parts) != 1 || parts[0].UUID == "") {
		err = fmt.Errorf("%s of GPU %s is made, and its device is not to be found", name, c.uuid)
	}
	if err != nil {
		return gpu.Instance{}, err
	}
	return parts[0].Instance, d.number(h, parts)
}

// DestroyInstance destroys the compute instances, then the GPU instance, and looks whether they are gone: drivers have
// reported success and left something behind. That is gpu.ErrInUse, worth another try.
func (d *Driver) DestroyInstance(ctx context.Context, uuid string, id int) error {
	c, h, err := d.card(ctx, uuid)
	if err != nil {
		return err
	}
	c.change.Lock()
	defer c.change.Unlock()
	parts, err := d.partsWith(c, h, id)
	if err != nil || len(parts) == 0 {
		return err
	}
	c.meter.drop(id) // a sample may keep the instance in use
	if err := destroy(id, parts[0].gi); err != nil {
		return err
	}
	if parts, err = d.partsWith(c, h, id); err != nil {
		return err
	}
	if len(parts) > 0 {
		return fmt.Errorf(
			"instance %d of GPU %s was reported as destroyed and is still there: %w", id, uuid, gpu.ErrInUse,
		)
	}
	return nil
}

// partsWith returns the parts of one GPU instance; none when it is gone.
func (d *Driver) partsWith(c *card, h nvml.Device, id int) ([]part, error) {
	parts, err := d.parts(c, h)
	return slices.DeleteFunc(parts, func(p part) bool { return p.GI != id }), err
}

func destroy(id int, gi nvml.GpuInstance) error {
	cis, err := computeInstances(id, gi)
	if err != nil {
		return err
	}
	for _, ci := range cis {
		if ret := ci.Destroy(); ret != nvml.ERROR_NOT_FOUND {
			if err := fault(ret, "destroy a compute instance of GPU instance %d", id); err != nil {
				return err
			}
		}
	}
	if ret := gi.Destroy(); ret != nvml.ERROR_NOT_FOUND {
		return fault(ret, "destroy GPU instance %d", id)
	}
	return nil
}
