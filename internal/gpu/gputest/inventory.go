package gputest

import (
	"context"
	"errors"
	"regexp"
	"testing"

	"slipway/internal/gpu"
)

func saysWhatItIs(t *testing.T, b bench) {
	s, err := b.System(t.Context())
	if err != nil || s.Driver == "" || s.NVML == "" || s.CUDA < 10000 {
		t.Errorf("System() = %+v, %v", s, err)
	}
	again, err := b.System(t.Context())
	if err != nil || again != s {
		t.Errorf("System() = %+v, %v; before it was %+v", again, err, s)
	}
}

var (
	capability = regexp.MustCompile(`^[0-9]+\.[0-9]$`)
	bus        = regexp.MustCompile(`^[0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9]$`)
	uuid       = regexp.MustCompile(`^GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
)

func devicesAreSane(t *testing.T, b bench) {
	first, seen := b.devices(t), map[any]bool{}
	for i, dev := range b.devices(t) {
		if !uuid.MatchString(dev.UUID) || !bus.MatchString(dev.Bus) || !capability.MatchString(dev.Capability) ||
			dev.Name == "" {
			t.Errorf("a device is %+v", dev)
		}
		if dev.Memory <= 0 || dev.SMs <= 0 || dev.Index < 0 || dev.Minor < 0 || dev.MIGEnabled && !dev.MIGCapable {
			t.Errorf("a device is %+v", dev)
		}
		if seen[dev.UUID] || seen[dev.Index] || seen[dev.Bus] {
			t.Errorf("two devices are one: %+v", dev)
		}
		seen[dev.UUID], seen[dev.Index], seen[dev.Bus] = true, true, true
		if first[i].UUID != dev.UUID {
			t.Errorf("device %d was %s, and then %s", i, first[i].UUID, dev.UUID)
		}
	}
}

func tablesAreSane(t *testing.T, b bench) {
	for _, dev := range b.devices(t) {
		if dev.MIGCapable != (dev.Slots > 0) || dev.MIGCapable != (len(dev.Profiles) > 0) {
			t.Errorf(
				"%s: it can be cut: %v, and has %d slots and %d profiles", dev.Name, dev.MIGCapable, dev.Slots,
				len(dev.Profiles),
			)
		}
		names, ids := map[string]bool{}, map[int]bool{}
		for _, p := range dev.Profiles {
			if names[p.Name] || ids[p.ID] {
				t.Errorf("%s: two profiles are %s or %d", dev.Name, p.Name, p.ID)
			}
			names[p.Name], ids[p.ID] = true, true
			profileIsSane(t, dev, p)
		}
	}
	b.whole(t)
}

func profileIsSane(t *testing.T, dev gpu.Device, p gpu.Profile) {
	t.Helper()
	if r, err := gpu.ParseRequest(p.Name); err != nil || r.Mode != gpu.MIG || r.Profile != p.Name {
		t.Errorf("%s: %q cannot be asked for: %+v, %v", dev.Name, p.Name, r, err)
	}
	if p.Compute < 1 || p.Memory <= 0 || p.Memory > dev.Memory || p.SMs <= 0 || p.SMs > dev.SMs {
		t.Errorf("%s has a profile %+v", dev.Name, p)
	}
	if p.Max < 1 || p.Max > len(p.Placements) {
		t.Errorf("%s: %s at most %d times, in %d places", dev.Name, p.Name, p.Max, len(p.Placements))
	}
	seen := map[gpu.Placement]bool{}
	for _, at := range p.Placements {
		if at.Start < 0 || at.Size < 1 || at.Start+at.Size > dev.Slots || at.Size != p.Placements[0].Size || seen[at] {
			t.Errorf("%s: %s may be at %v of %d slots", dev.Name, p.Name, at, dev.Slots)
		}
		seen[at] = true
	}
}

func healthy(t *testing.T, b bench) {
	if h, err := b.Health(t.Context(), b.dev.UUID); err != nil || h.Lost || h.RowsPending || h.ECC != 0 || h.Xid != 0 {
		t.Errorf("Health() = %+v, %v", h, err)
	}
}

// calls are all that can be asked about one GPU. None changes an empty GPU that is cut.
func (b bench) calls(ctx context.Context, uuid string) map[string]error {
	_, instances := b.Instances(ctx, uuid)
	_, create := b.CreateInstance(ctx, uuid, b.smallest().Name, b.smallest().Placements[0])
	_, health := b.Health(ctx, uuid)
	_, read := b.Read(ctx, uuid)
	return map[string]error{
		"Instances": instances, "CreateInstance": create, "Health": health, "Read": read,
		"DestroyInstance": b.DestroyInstance(ctx, uuid, 0), "SetMIG": b.SetMIG(ctx, uuid, true),
	}
}

func unknownGPU(t *testing.T, b bench) {
	for name, err := range b.calls(t.Context(), "GPU-00000000-0000-0000-0000-000000000000") {
		if !errors.Is(err, gpu.ErrNotFound) {
			t.Errorf("%s of a GPU that there is none of: %v", name, err)
		}
	}
}

func endedContext(t *testing.T, b bench) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	errs := b.calls(ctx, b.dev.UUID)
	_, errs["System"] = b.System(ctx)
	_, errs["Devices"] = b.Devices(ctx)
	for name, err := range errs {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s with an ended context: %v", name, err)
		}
	}
	b.holds(t)
}
