//go:build cgo

package nvml

import (
	"cmp"
	"context"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"slipway/internal/gpu"
)

// part is a compute instance, or a GPU instance without one, with its handles.
type part struct {
	gpu.Instance
	gi  nvml.GpuInstance
	mig nvml.Device // nil: there is no compute instance, or its device is not to be found
}

// Instances returns what the GPU is cut into. A GPU instance with several compute instances, as others make them, comes
// several times.
func (d *Driver) Instances(ctx context.Context, uuid string) ([]gpu.Instance, error) {
	c, h, err := d.card(ctx, uuid)
	if err != nil {
		return nil, err
	}
	parts, err := d.parts(c, h)
	if err != nil {
		return nil, err
	}
	var found []gpu.Instance
	for _, p := range parts {
		found = append(found, p.Instance)
	}
	return found, nil
}

func (d *Driver) parts(c *card, h nvml.Device) ([]part, error) {
	on, err := cut(c, h)
	if err != nil || !on {
		return nil, err
	}
	profiles, err := d.profiles(c, h)
	if err != nil {
		return nil, err
	}
	var found []part
	for _, p := range profiles {
		gis, ret := h.GetGpuInstances(&p.info)
		if ret == nvml.ERROR_NOT_SUPPORTED {
			continue
		}
		if ret != nvml.SUCCESS {
			return nil, fault(ret, "list the instances of GPU %s", c.uuid)
		}
		for _, gi := range gis {
			some, err := partsOf(c, h, gi, p.Name)
			if err != nil {
				return nil, err
			}
			found = append(found, some...)
		}
	}
	slices.SortFunc(found, func(a, b part) int { return cmp.Or(cmp.Compare(a.GI, b.GI), cmp.Compare(a.CI, b.CI)) })
	return found, d.number(h, found)
}

// number adds the device files.
func (d *Driver) number(h nvml.Device, parts []part) error {
	if len(parts) == 0 {
		return nil
	}
	minor, ret := h.GetMinorNumber()
	if err := fault(ret, "ask GPU %s for its device file", parts[0].GPU); err != nil {
		return err
	}
	numbers, err := d.numbers()
	if err != nil {
		return err
	}
	for i, p := range parts {
		parts[i].Caps = numbers.of(minor, p.GI, p.CI)
	}
	return nil
}

// cut reports whether MIG is on.
func cut(c *card, h nvml.Device) (bool, error) {
	current, _, ret := h.GetMigMode()
	if kindOf(ret) == gpu.ErrNotSupported {
		return false, nil
	}
	return current == nvml.DEVICE_MIG_ENABLE, fault(ret, "ask GPU %s for its MIG mode", c.uuid)
}

// partsOf returns the compute instances of a GPU instance, or the one part that says that there are none.
func partsOf(c *card, h nvml.Device, gi nvml.GpuInstance, profile string) ([]part, error) {
	info, ret := gi.GetInfo()
	if ret == nvml.ERROR_NOT_FOUND { // destroyed since it was listed
		return nil, nil
	}
	if ret != nvml.SUCCESS {
		return nil, fault(ret, "ask for an instance of GPU %s", c.uuid)
	}
	remnant := part{gi: gi, Instance: gpu.Instance{
		GPU: c.uuid, GI: int(info.Id), CI: -1, Profile: profile,
		Placement: gpu.Placement{Start: int(info.Placement.Start), Size: int(info.Placement.Size)},
	}}
	cis, err := computeInstances(remnant.GI, gi)
	if err != nil {
		return nil, err
	}
	var found []part
	for _, ci := range cis {
		ciInfo, ret := ci.GetInfo()
		if ret == nvml.ERROR_NOT_FOUND {
			continue
		}
		if ret != nvml.SUCCESS {
			return nil, fault(ret, "ask for a compute instance of GPU %s", c.uuid)
		}
		p := remnant
		p.CI = int(ciInfo.Id)
		p.mig, p.UUID = migDevice(h, ciInfo.Device, p.GI, p.CI)
		found = append(found, p)
	}
	if found == nil {
		found = []part{remnant}
	}
	return found, nil
}

// computeProfiles returns the kinds of compute instance that a GPU instance can have.
func computeProfiles(id int, gi nvml.GpuInstance) ([]nvml.ComputeInstanceProfileInfo, error) {
	var found []nvml.ComputeInstanceProfileInfo
	for i := range mostProfiles {
		info, ret := gi.GetComputeInstanceProfileInfo(i, nvml.COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED)
		switch ret {
		case nvml.ERROR_INVALID_ARGUMENT:
			return found, nil
		case nvml.ERROR_NOT_SUPPORTED:
		case nvml.SUCCESS:
			found = append(found, info)
		default:
			return nil, fault(ret, "ask GPU instance %d for profile %d", id, i)
		}
	}
	return found, nil
}

func computeInstances(id int, gi nvml.GpuInstance) ([]nvml.ComputeInstance, error) {
	profiles, err := computeProfiles(id, gi)
	if err != nil {
		return nil, err
	}
	var found []nvml.ComputeInstance
	for _, p := range profiles {
		cis, ret := gi.GetComputeInstances(&p)
		if ret != nvml.SUCCESS && ret != nvml.ERROR_NOT_SUPPORTED {
			return nil, fault(ret, "list the compute instances of GPU instance %d", id)
		}
		found = append(found, cis...)
	}
	return found, nil
}

// migDevice returns the device of a compute instance, and its UUID. The instance itself tells it with drivers of today;
// else it is looked for among all devices of the GPU, which is slow and may find some that are gone: so their numbers
// are compared.
func migDevice(parent, told nvml.Device, gi, ci int) (nvml.Device, string) {
	if told != nil {
		if is, ret := told.IsMigDeviceHandle(); ret == nvml.SUCCESS && is {
			if uuid, ret := told.GetUUID(); ret == nvml.SUCCESS {
				return told, uuid
			}
		}
	}
	most, ret := parent.GetMaxMigDeviceCount()
	if ret != nvml.SUCCESS {
		return nil, ""
	}
	for i := range most {
		m, ret := parent.GetMigDeviceHandleByIndex(i)
		if ret != nvml.SUCCESS || !bears(m, gi, ci) {
			continue
		}
		if uuid, ret := m.GetUUID(); ret == nvml.SUCCESS {
			return m, uuid
		}
	}
	return nil, ""
}

func bears(m nvml.Device, gi, ci int) bool {
	g, ret := m.GetGpuInstanceId()
	if ret != nvml.SUCCESS || g != gi {
		return false
	}
	c, ret := m.GetComputeInstanceId()
	return ret == nvml.SUCCESS && c == ci
}
