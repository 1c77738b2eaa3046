package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"slipway/internal/gpu"
	"slipway/internal/gpu/placement"
)

// tend brings a GPU into the mode and the layout that its rule wants, where that harms nobody. The card's turn is
// taken.
func (f *Fleet) tend(ctx context.Context, c *card) error {
	f.mu.Lock()
	v := f.view(c)
	mig := c.rule.Mode == gpu.MIG
	toSwitch := f.maySwitch(c) && v.condition == gpu.Unset && !time.Now().Before(c.switchAt)
	toLay := mig && c.device.MIGEnabled && v.condition == gpu.Ready && len(c.layout) > 0
	f.mu.Unlock()
	switch {
	case toSwitch:
		return f.switchMIG(ctx, c, mig)
	case toLay:
		return f.lay(ctx, c)
	}
	return nil
}

// switchMIG switches MIG mode of a GPU that nobody uses. Nothing is leased of it meanwhile, for it is not in its mode.
func (f *Fleet) switchMIG(ctx context.Context, c *card, on bool) error {
	empty, err := f.vacant(ctx, c)
	if err != nil || !empty {
		return err
	}
	err = f.cfg.Driver.SetMIG(ctx, c.uuid, on)
	f.mu.Lock()
	c.switching, c.switchAt = "", time.Now().Add(switchPause)
	switch {
	case errors.Is(err, gpu.ErrPending):
		c.switching, err = "It has been switched, which takes effect only after a reset: nvidia-smi -r -i "+c.uuid, nil
	case err != nil:
		c.switching = fmt.Sprintf("To switch it was tried at %s: %v", time.Now().Format("15:04"), err)
	default:
		c.device.MIGEnabled, c.due = on, true
		f.log.Info("MIG mode of a GPU is switched", "gpu", c.uuid, "on", on)
	}
	f.mu.Unlock()
	return err
}

// vacant reports whether nobody holds or uses anything of a GPU. Own instances, which nobody holds then, are destroyed.
func (f *Fleet) vacant(ctx context.Context, c *card) (bool, error) {
	if len(f.heldOn(c.uuid)) > 0 {
		return false, nil
	}
	r, err := f.Read(ctx, c.uuid)
	if err != nil && !errors.Is(err, gpu.ErrNotSupported) || len(r.Processes) > 0 {
		return false, err
	}
	all, err := f.list(ctx, c)
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(all, func(in gpu.Instance) bool { return !f.isOwn(in) }) {
		return false, nil
	}
	for _, in := range all {
		if err := f.destroy(ctx, c, in); err != nil {
			return false, err
		}
	}
	return true, nil
}

func (f *Fleet) isOwn(in gpu.Instance) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, own := f.book.own(in)
	return own
}

// lay makes the instances of a layout that are missing, and destroys own ones that do not belong to it and that nobody
// holds. Only what belongs to the layout is leased, so nobody can come to hold the others meanwhile. What fails is
// quarantined, and tried again when that is over.
func (f *Fleet) lay(ctx context.Context, c *card) error {
	all, err := f.list(ctx, c)
	if err != nil {
		return err
	}
	leases := f.heldOn(c.uuid)
	for _, in := range all {
		f.mu.Lock()
		_, own := f.book.own(in)
		stays := c.offers(in) && complete(in) || f.quarantined(in.GPU, in.Placement)
		f.mu.Unlock()
		if !own || stays || heldByOther(leases, "", in) {
			continue
		}
		if err := f.destroy(ctx, c, in); err != nil {
			return err
		}
	}
	return f.fill(ctx, c)
}

// fill makes the instances of a layout for which there is room.
func (f *Fleet) fill(ctx context.Context, c *card) error {
	f.mu.Lock()
	layout := c.layout
	f.mu.Unlock()
	for _, want := range layout {
		f.mu.Lock()
		skip := covered(c.instances, want.Placement) || f.quarantined(c.uuid, want.Placement)
		f.mu.Unlock()
		if skip {
			continue
		}
		s := slice(f.deviceOf(c), want)
		in, err := f.carve(ctx, c, "", s)
		if err != nil {
			return f.verdict(ctx, c, s, err)
		}
		f.log.Info(
			"an instance of the layout is made", "gpu", c.uuid, "profile", in.Profile, "start", in.Placement.Start,
		)
		f.publish()
	}
	return nil
}

// quarantined reports whether a quarantine lies on a place. The lock is held.
func (f *Fleet) quarantined(uuid string, at gpu.Placement) bool {
	return slices.ContainsFunc(
		f.book.active(uuid, time.Now()), func(q quarantine) bool { return overlap(q.Slice.Placement, at) },
	)
}

// slice returns the slice that an instance is.
func slice(d gpu.Device, r placement.Ready) gpu.Slice {
	p, _ := d.Profile(r.Profile)
	return gpu.Slice{
		GPU: d.UUID, Model: d.Name, Mode: gpu.MIG, Name: r.Profile, Profile: r.Profile, Placement: r.Placement,
		Memory: p.Memory, SMs: p.SMs, Tier: gpu.Hardware,
	}
}
