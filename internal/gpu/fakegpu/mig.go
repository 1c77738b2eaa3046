package fakegpu

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"slipway/internal/gpu"
)

// errNoCompute is what creation fails with when it leaves a remnant.
var errNoCompute = errors.New("the compute instance cannot be made")

// Instances returns what a GPU is cut into, in the order of their numbers.
func (d *Driver) Instances(ctx context.Context, uuid string) ([]gpu.Instance, error) {
	var all []gpu.Instance
	err := d.at(ctx, OpInstances, uuid, func(b *board) error {
		for _, in := range b.instances {
			in.Caps = slices.Clone(in.Caps)
			all = append(all, in)
		}
		return nil
	})
	slices.SortFunc(all, func(a, b gpu.Instance) int { return a.GI - b.GI })
	return all, err
}

// CreateInstance makes a GPU instance and its compute instance. A profile that the GPU lacks is gpu.ErrNotSupported, as
// is any when MIG is off; a placement that the profile lacks is gpu.ErrNoRoom, as is one that is taken.
func (d *Driver) CreateInstance(ctx context.Context, uuid, profile string, at gpu.Placement) (gpu.Instance, error) {
	in, err := d.create(ctx, uuid, profile, at)
	if err != nil {
		return gpu.Instance{}, fmt.Errorf("create %s at %d+%d of %s: %w", profile, at.Start, at.Size, uuid, err)
	}
	return in, nil
}

func (d *Driver) create(ctx context.Context, uuid, profile string, at gpu.Placement) (gpu.Instance, error) {
	b, f, err := d.change(ctx, OpCreate, uuid)
	if err != nil {
		return gpu.Instance{}, err
	}
	defer b.changed()
	var in gpu.Instance
	whole := f.Delay == 0 && !f.Remnant
	err = d.commit(uuid, func(b *board) error {
		if err := b.fits(profile, at); err != nil {
			return err
		}
		in = b.instance(profile, at, whole)
		b.instances[in.GI] = in
		return nil
	})
	if err != nil || whole {
		return in, err
	}
	if err := wait(ctx, f.Delay); err != nil {
		return gpu.Instance{}, err
	}
	if f.Remnant {
		return gpu.Instance{}, errNoCompute
	}
	err = d.commit(uuid, func(b *board) error {
		if _, there := b.instances[in.GI]; !there {
			return gpu.ErrNotFound
		}
		in = b.instance(profile, at, true)
		b.instances[in.GI] = in
		return nil
	})
	return in, err
}

// instance is what a profile at a placement is once it is made; without its compute instance unless whole.
func (b *board) instance(profile string, at gpu.Placement, whole bool) gpu.Instance {
	in := gpu.Instance{GPU: b.device.UUID, GI: giOf(b.device.Slots, at), CI: -1, Profile: profile, Placement: at}
	if whole {
		in.CI, in.UUID = 0, migUUID(b.device.UUID, in.GI, 0)
	}
	in.Caps = capsOf(b.device.Minor, in.GI, in.CI)
	return in
}

// fits says why a GPU cannot be cut so; nil when it can.
func (b *board) fits(profile string, at gpu.Placement) error {
	p, known := b.device.Profile(profile)
	if !b.device.MIGEnabled || !known {
		return gpu.ErrNotSupported
	}
	if !slices.Contains(p.Placements, at) {
		return gpu.ErrNoRoom
	}
	same := 0
	for _, in := range b.instances {
		if in.Placement.Start < at.Start+at.Size && at.Start < in.Placement.Start+in.Placement.Size {
			return gpu.ErrNoRoom
		}
		if in.Profile == profile {
			same++
		}
	}
	if same >= p.Max {
		return gpu.ErrNoRoom
	}
	return nil
}

// DestroyInstance destroys a GPU instance. With processes on it, it is gpu.ErrInUse.
func (d *Driver) DestroyInstance(ctx context.Context, uuid string, gi int) error {
	if err := d.destroy(ctx, uuid, gi); err != nil {
		return fmt.Errorf("destroy instance %d of %s: %w", gi, uuid, err)
	}
	return nil
}

func (d *Driver) destroy(ctx context.Context, uuid string, gi int) error {
	b, f, err := d.change(ctx, OpDestroy, uuid)
	if err != nil {
		return err
	}
	defer b.changed()
	half := f.Delay > 0 || f.Remnant
	err = d.commit(uuid, func(b *board) error {
		if b.crowd(gi) > 0 {
			return gpu.ErrInUse
		}
		if in, there := b.instances[gi]; there && half {
			b.instances[gi] = b.instance(in.Profile, in.Placement, false)
			return nil
		}
		delete(b.instances, gi)
		return nil
	})
	if err != nil || !half {
		return err
	}
	if err := wait(ctx, f.Delay); err != nil || f.Remnant {
		return err
	}
	return d.commit(uuid, func(b *board) error {
		delete(b.instances, gi)
		return nil
	})
}

// SetMIG switches MIG mode of an empty GPU: at once from Hopper on, at the next Reset before.
func (d *Driver) SetMIG(ctx context.Context, uuid string, on bool) error {
	if err := d.setMIG(ctx, uuid, on); err != nil {
		return fmt.Errorf("switch MIG of %s: %w", uuid, err)
	}
	return nil
}

func (d *Driver) setMIG(ctx context.Context, uuid string, on bool) error {
	b, _, err := d.change(ctx, OpMIG, uuid)
	if err != nil {
		return err
	}
	defer b.changed()
	pending := false
	err = d.commit(uuid, func(b *board) error {
		err := b.switchMIG(on)
		pending = b.wantMIG != b.device.MIGEnabled
		return err
	})
	if err == nil && pending {
		return gpu.ErrPending
	}
	return err
}

func (b *board) switchMIG(on bool) error {
	switch {
	case !b.device.MIGCapable:
		return gpu.ErrNotSupported
	case b.device.MIGEnabled == on && b.wantMIG == on:
		return nil
	case len(b.processes) > 0 || len(b.instances) > 0:
		return gpu.ErrInUse
	}
	b.wantMIG = on
	if !b.device.MIGReset {
		b.device.MIGEnabled = on
	}
	return nil
}

// Reset resets one GPU: its instances, its errors and its counters are gone, a MIG mode that was pending holds. With
// processes on it, it is gpu.ErrInUse.
func (d *Driver) Reset(uuid string) error {
	err := d.commit(uuid, func(b *board) error {
		if len(b.processes) > 0 {
			return gpu.ErrInUse
		}
		b.reset()
		return nil
	})
	if err != nil {
		return fmt.Errorf("reset %s: %w", uuid, err)
	}
	return nil
}

// Reboot is what the host's reboot and the driver's reload do: processes and instances are gone, and MIG mode is too
// from Hopper on.
func (d *Driver) Reboot() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, b := range d.boards {
		clear(b.processes)
		b.wantMIG = b.wantMIG && b.device.MIGReset
		b.reset()
	}
	return d.save()
}

func (b *board) reset() {
	clear(b.instances)
	clear(b.limits)
	b.exclusive, b.device.MIGEnabled = false, b.wantMIG
	b.sick, b.sickUntil, b.energy, b.measured = gpu.Health{}, time.Time{}, 0, time.Now()
}

// change begins a change of a GPU: after those that were asked for before, and after the faults that are due. Unless it
// fails, the caller calls changed.
func (d *Driver) change(ctx context.Context, op Op, uuid string) (*board, Fault, error) {
	d.mu.Lock()
	b, err := d.reach(uuid)
	d.mu.Unlock()
	if err != nil {
		return nil, Fault{}, err
	}
	select {
	case b.changing <- struct{}{}:
	case <-ctx.Done():
		return nil, Fault{}, ctx.Err()
	}
	f, err := d.call(ctx, op, uuid)
	if err != nil {
		b.changed()
		return nil, Fault{}, err
	}
	return b, f, nil
}

func (b *board) changed() { <-b.changing }

// commit changes a GPU that answers, and saves it; a change that cannot be saved is undone.
func (d *Driver) commit(uuid string, do func(*board) error) error {
	return d.locked(uuid, func(b *board) error {
		now := time.Now()
		b.meter(now)
		instances, on, want := maps.Clone(b.instances), b.device.MIGEnabled, b.wantMIG
		err := do(b)
		if err == nil {
			err = d.save()
		}
		if err != nil {
			b.instances, b.device.MIGEnabled, b.wantMIG = instances, on, want
		}
		return err
	})
}
