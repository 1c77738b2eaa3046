package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"slipway/internal/errs"
	"slipway/internal/gpu"
	"slipway/internal/gpu/mps"
)

// Release says that holder has been seen gone from s. An instance stays, ready for the next; all else is taken back
// soon. It does no I/O.
func (f *Fleet) Release(holder string, s gpu.Slice) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, u := range f.book.uses {
		if u.Holder == holder && u.Slice.GPU == s.GPU {
			u.released = true
			f.book.uses[key] = u
		}
	}
	if c := f.cardLocked(s.GPU); c != nil {
		c.due = true
		poke(f.wake)
	}
}

// Part has a workload's processes leave the GPU in an orderly way, where its mode needs that before they are killed.
func (f *Fleet) Part(ctx context.Context, holder string, s gpu.Slice) error {
	if s.Mode != gpu.MPS || f.cfg.MPS == nil {
		return nil
	}
	r, err := f.Read(ctx, s.GPU)
	if err != nil && !errors.Is(err, gpu.ErrNotSupported) {
		return fmt.Errorf("part %s from %s: %w", holder, s, err)
	}
	var pids []int
	for _, p := range r.Processes {
		if f.whose(p.PID) == holder {
			pids = append(pids, p.PID)
		}
	}
	return f.cfg.MPS.End(ctx, s.GPU, holder, pids)
}

// Confine has the driver hold the container of this cgroup to what s may use of the GPU's memory.
func (f *Fleet) Confine(ctx context.Context, s gpu.Slice, cgroup string) error {
	if s.Tier != gpu.Cgroup {
		return nil
	}
	if s.Memory <= 0 {
		return errs.Bad("slice.memory", s.Memory, "the bytes of the GPU's memory that the workload may use")
	}
	if err := f.noteUse(ctx, use{Slice: s, Cgroup: cgroup}); err != nil {
		return err
	}
	if err := f.cfg.Driver.LimitMemory(ctx, s.GPU, cgroup, s.Memory); err != nil {
		return fmt.Errorf("limit the memory of %s: %w", s, err)
	}
	return nil
}

// reclaim takes back what workloads had that hold nothing any more. What fails is tried again at the next look. The
// card's turn is taken.
func (f *Fleet) reclaim(ctx context.Context, c *card) {
	for _, u := range f.over(c, f.heldOn(c.uuid)) {
		if err := f.takeBack(ctx, u); err != nil {
			f.log.Warn(
				"what a workload had of a GPU is not taken back yet", "gpu", c.uuid, "workload", u.Holder, "err", err,
			)
			continue
		}
		f.mu.Lock()
		err := f.book.dropUse(ctx, u)
		f.mu.Unlock()
		if err != nil {
			f.log.Warn("the store keeps a use of a GPU that is over", "gpu", c.uuid, "err", err)
		}
	}
}

// over returns the uses of a GPU that have ended: the engine said so, or does not count the workload among the holders.
func (f *Fleet) over(c *card, leases []gpu.Lease) []use {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []use
	for _, u := range f.book.uses {
		switch {
		case u.Slice.GPU != c.uuid:
		case u.Cgroup != "":
			if _, err := os.Stat(filepath.Join(f.cfg.Cgroups, u.Cgroup)); errors.Is(err, os.ErrNotExist) {
				all = append(all, u)
			}
		case !lingers(c.leftovers, u.Holder) && (u.released || !holds(leases, u.Holder)):
			all = append(all, u)
		}
	}
	return all
}

func holds(leases []gpu.Lease, holder string) bool {
	for _, l := range leases {
		if on(l, holder) {
			return true
		}
	}
	return false
}

func lingers(leftovers []leftover, holder string) bool {
	for _, l := range leftovers {
		if l.holder == holder {
			return true
		}
	}
	return false
}

func (f *Fleet) takeBack(ctx context.Context, u use) error {
	switch {
	case u.Cgroup != "":
		err := f.cfg.Driver.LimitMemory(ctx, u.Slice.GPU, u.Cgroup, 0)
		if isGone(err) || errors.Is(err, gpu.ErrNotSupported) {
			return nil
		}
		return err
	case u.Slice.Mode == gpu.MPS && f.cfg.MPS != nil:
		return f.cfg.MPS.Release(ctx, u.Slice.GPU, u.Holder)
	}
	return nil
}

// probe finds out, once, what MPS can do here, if any GPU is to be shared by it.
func (f *Fleet) probe(ctx context.Context) {
	f.mu.Lock()
	wanted, done := false, f.probed
	for _, r := range f.cfg.Rules {
		wanted = wanted || r.Mode == gpu.MPS
	}
	f.mu.Unlock()
	if !wanted || done {
		return
	}
	ability, fault := mps.Ability{}, "the service runs no MPS daemons"
	if f.cfg.MPS != nil {
		var err error
		if ability, err = f.cfg.MPS.Probe(ctx); err != nil {
			fault = err.Error()
		} else {
			fault = ""
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ability, f.mpsFault, f.probed = ability, fault, fault == "" || f.cfg.MPS == nil
}

// daemonFault says what is wrong with the MPS daemon of a GPU.
func (f *Fleet) daemonFault(ctx context.Context, c *card) string {
	f.mu.Lock()
	wanted := c.rule.Mode == gpu.MPS && f.probed && f.cfg.MPS != nil
	f.mu.Unlock()
	if !wanted {
		return ""
	}
	s, err := f.cfg.MPS.Health(ctx, c.uuid)
	if err != nil {
		return fmt.Sprintf("its MPS daemon cannot be looked at: %v", err)
	}
	if s.Condition == mps.Working {
		return ""
	}
	return s.Why
}
