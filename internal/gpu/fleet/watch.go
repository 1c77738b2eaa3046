package fleet

import (
	"context"
	"errors"
	"slices"
	"time"

	"slipway/internal/clock"
	"slipway/internal/gpu"
)

// Read asks for one measurement of a GPU and remembers it. Who measures regularly calls it, so that each GPU is read
// once.
func (f *Fleet) Read(ctx context.Context, uuid string) (gpu.Reading, error) {
	r, err := f.cfg.Driver.Read(ctx, uuid)
	if err != nil {
		return r, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.cardLocked(uuid); c != nil {
		c.reading, c.readAt = &r, time.Now()
	}
	return r, nil
}

// Reading returns the last measurement of a GPU, and when it was taken.
func (f *Fleet) Reading(uuid string) (gpu.Reading, time.Time, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.cardLocked(uuid); c != nil && c.reading != nil {
		return *c.reading, c.readAt, true
	}
	return gpu.Reading{}, time.Time{}, false
}

// watch finds the processes on a GPU that have no business there. A measurement that somebody has just taken will do,
// unless fresh.
func (f *Fleet) watch(ctx context.Context, c *card, fresh bool) error {
	before := f.heldOn(c.uuid)
	r, at, ok := f.Reading(c.uuid)
	if fresh || !ok || time.Since(at) > f.cfg.Every {
		var err error
		if r, err = f.Read(ctx, c.uuid); err != nil && !errors.Is(err, gpu.ErrNotSupported) {
			return err
		}
	}
	// A workload that came or went while the processes were listed is in its right both times.
	leases := append(before, f.heldOn(c.uuid)...)
	strangers, leftovers := f.sort(c, r.Processes, leases)
	f.mu.Lock()
	defer f.mu.Unlock()
	c.strangers, c.leftovers = strangers, leftovers
	c.who = f.named(strangers, leftovers)
	c.due = c.due || len(leftovers) > 0
	return nil
}

// sort finds among the processes of a GPU those of nobody here, and those of workloads that do not hold the part that
// they are on.
func (f *Fleet) sort(
	c *card, processes []gpu.ProcessUse, leases []gpu.Lease,
) (strangers []gpu.ProcessUse, leftovers []leftover) {
	f.mu.Lock()
	mode, instances := c.rule.Mode, c.instances
	f.mu.Unlock()
	for _, p := range processes {
		holder := f.whose(p.PID)
		switch {
		case holder == "" && mode == gpu.MPS && isDaemon(f.cfg.Proc, p.PID):
		case holder == "":
			strangers = append(strangers, p)
		case !entitled(leases, holder, p, instances):
			leftovers = append(leftovers, leftover{ProcessUse: p, holder: holder})
		}
	}
	return strangers, leftovers
}

func (f *Fleet) whose(pid int) string {
	if f.cfg.Whose == nil {
		return ""
	}
	return f.cfg.Whose(pid)
}

// entitled reports whether a workload holds, or has borrowed, what its process is on.
func entitled(leases []gpu.Lease, holder string, p gpu.ProcessUse, instances []gpu.Instance) bool {
	return slices.ContainsFunc(leases, func(l gpu.Lease) bool {
		if !on(l, holder) {
			return false
		}
		in, cut := byGI(instances, p.GI)
		return !cut || l.Slice.Mode != gpu.MIG || l.Slice.Placement == in.Placement
	})
}

// on reports whether a workload is one of those that a lease lets on its slice.
func on(l gpu.Lease, id string) bool {
	return id != "" && (l.Holder == id || l.Lent == id || l.As == id)
}

// heldOn returns the leases of a GPU.
func (f *Fleet) heldOn(uuid string) []gpu.Lease {
	var on []gpu.Lease
	for _, l := range f.cfg.Held() {
		if l.Slice.GPU == uuid {
			on = append(on, l)
		}
	}
	return on
}

// settled waits a moment for processes to leave a place: the driver may list some for a moment after their end. bad
// says of the processes of the GPU which have no business there; what of them is left is given.
func (f *Fleet) settled(ctx context.Context, c *card, bad func(gpu.ProcessUse) bool) ([]gpu.ProcessUse, error) {
	until := time.Now().Add(linger)
	for wait := 50 * time.Millisecond; ; wait *= 2 {
		r, err := f.Read(ctx, c.uuid)
		if errors.Is(err, gpu.ErrNotSupported) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		left := slices.DeleteFunc(slices.Clone(r.Processes), func(p gpu.ProcessUse) bool { return !bad(p) })
		if len(left) == 0 || time.Now().Add(wait).After(until) {
			return left, nil
		}
		if !clock.Sleep(ctx, wait) {
			return nil, ctx.Err()
		}
	}
}
