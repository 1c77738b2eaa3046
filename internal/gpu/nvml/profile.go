//go:build cgo

package nvml

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"slipway/internal/gpu"
)

// profile is a profile together with what the library wants to see again.
type profile struct {
	gpu.Profile
	info nvml.GpuInstanceProfileInfo
}

// profiles returns the GPU's profiles with their placements, also while MIG is off.
func (d *Driver) profiles(c *card, h nvml.Device) ([]profile, error) {
	d.mu.Lock()
	known := c.profiles
	d.mu.Unlock()
	if known != nil {
		return known, nil
	}
	found, err := d.readProfiles(c.uuid, h)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	c.profiles = found
	return found, nil
}

// mostProfiles ends the search in a library that never says that there are no more.
const mostProfiles = 256

// readProfiles asks for one profile after the other until the library knows no more: how many there are grows with its
// versions.
func (d *Driver) readProfiles(uuid string, h nvml.Device) ([]profile, error) {
	memory, ret := h.GetMemoryInfo()
	if err := fault(ret, "ask GPU %s for its memory", uuid); err != nil {
		return nil, err
	}
	found := []profile{}
	for i := range mostProfiles {
		info, ret := h.GetGpuInstanceProfileInfo(i)
		switch {
		case ret == nvml.ERROR_INVALID_ARGUMENT:
			return found, nil
		case ret == nvml.ERROR_NOT_SUPPORTED:
			continue
		case ret != nvml.SUCCESS:
			return nil, fault(ret, "ask GPU %s for profile %d", uuid, i)
		}
		at, err := placements(uuid, h, info)
		if err != nil {
			return nil, err
		}
		found = append(found, profile{info: info, Profile: gpu.Profile{
			Name: d.nameOf(h, i, info, int64(memory.Total)), ID: int(info.Id), Compute: int(info.SliceCount),
			Memory: int64(info.MemorySizeMB) * mib, SMs: int(info.MultiprocessorCount), Max: int(info.InstanceCount),
			Placements: at,
		}})
	}
	return found, nil
}

func placements(uuid string, h nvml.Device, info nvml.GpuInstanceProfileInfo) ([]gpu.Placement, error) {
	possible, ret := h.GetGpuInstancePossiblePlacements(&info)
	if err := fault(ret, "ask GPU %s for the placements of profile %d", uuid, info.Id); err != nil {
		return nil, err
	}
	at := make([]gpu.Placement, len(possible))
	for i, p := range possible {
		at[i] = gpu.Placement{Start: int(p.Start), Size: int(p.Size)}
	}
	slices.SortFunc(at, func(a, b gpu.Placement) int { return cmp.Compare(a.Start, b.Start) })
	return at, nil
}

// nameOf returns a profile's name: the library's own where it has one.
func (d *Driver) nameOf(h nvml.Device, i int, info nvml.GpuInstanceProfileInfo, total int64) string {
	if d.has("nvmlDeviceGetGpuInstanceProfileInfoV") {
		if v2, ret := h.GetGpuInstanceProfileInfoV(i).V2(); ret == nvml.SUCCESS {
			if name := trimName(text(v2.Name[:])); name != "" {
				return name
			}
		}
	}
	return composeName(int(info.SliceCount), int64(info.MemorySizeMB)*mib, total, attribute(i))
}

// attribute is what a profile's name ends with.
func attribute(i int) string {
	switch i {
	case nvml.GPU_INSTANCE_PROFILE_1_SLICE_REV1, nvml.GPU_INSTANCE_PROFILE_2_SLICE_REV1:
		return "+me"
	case nvml.GPU_INSTANCE_PROFILE_1_SLICE_GFX, nvml.GPU_INSTANCE_PROFILE_2_SLICE_GFX,
		nvml.GPU_INSTANCE_PROFILE_3_SLICE_GFX, nvml.GPU_INSTANCE_PROFILE_4_SLICE_GFX:
		return "+gfx"
	case nvml.GPU_INSTANCE_PROFILE_1_SLICE_NO_ME, nvml.GPU_INSTANCE_PROFILE_2_SLICE_NO_ME:
		return "-me"
	case nvml.GPU_INSTANCE_PROFILE_1_SLICE_ALL_ME, nvml.GPU_INSTANCE_PROFILE_2_SLICE_ALL_ME:
		return "+me.all"
	}
	return ""
}

// find returns a profile by its name.
func find(profiles []profile, uuid, name string) (profile, error) {
	i := slices.IndexFunc(profiles, func(p profile) bool { return p.Name == name })
	if i < 0 {
		return profile{}, fmt.Errorf("profile %s of GPU %s: %w", name, uuid, gpu.ErrNotSupported)
	}
	return profiles[i], nil
}
