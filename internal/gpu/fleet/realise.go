package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"slipway/internal/errs"
	"slipway/internal/gpu"
	"slipway/internal/gpu/mps"
)

// Realise makes what s stands for, for a workload that holds it, and says what its container needs. Repeating it is
// harmless, as it is to end the service at any point of it. After an error that is gpu.ErrBadPlace the place is not
// offered for a while; any other means that it may be tried again.
func (f *Fleet) Realise(ctx context.Context, holder string, s gpu.Slice) (gpu.Binding, error) {
	b, err := f.realise(ctx, holder, s)
	if err != nil {
		return gpu.Binding{}, fmt.Errorf("prepare %s for %s: %w", s, holder, err)
	}
	return b, nil
}

func (f *Fleet) realise(ctx context.Context, holder string, s gpu.Slice) (gpu.Binding, error) {
	c := f.card(s.GPU)
	if c == nil {
		if fault := f.now.Load().fault; fault != "" {
			return gpu.Binding{}, errs.New(errs.Unavailable, "the GPUs cannot be asked now: %s", fault)
		}
		return gpu.Binding{}, fmt.Errorf("there is no GPU %s: %w", s.GPU, gpu.ErrBadPlace)
	}
	if err := c.take(ctx); err != nil {
		return gpu.Binding{}, err
	}
	defer c.give()
	defer f.publish()
	ctx, cancel := context.WithTimeout(ctx, makeTimeout) // a driver that hangs does not keep the GPU for ever
	defer cancel()
	if err := f.mayUse(c, holder, s); err != nil {
		return gpu.Binding{}, err
	}
	f.reclaim(ctx, c)
	in, err := f.ready(ctx, c, holder, s)
	if err != nil {
		return gpu.Binding{}, f.verdict(ctx, c, s, err)
	}
	return f.bind(ctx, c, holder, s, in)
}

// mayUse refuses what must not be made of a GPU, whatever is on it.
func (f *Fleet) mayUse(c *card, holder string, s gpu.Slice) error {
	leases := f.heldOn(c.uuid)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range leases {
		if !on(l, holder) && clash(l.Slice, s) {
			return fmt.Errorf("%s on it is held: %w", l.Slice, gpu.ErrBadPlace)
		}
	}
	if c.absent {
		return fmt.Errorf("it is lost: %w", gpu.ErrBadPlace)
	}
	// What is in quarantine is refused here too: it may have come there since it was leased.
	for _, q := range f.book.active(c.uuid, time.Now()) {
		if s.Mode != gpu.MIG || overlap(q.Slice.Placement, s.Placement) {
			return fmt.Errorf("it is set aside until %s: %w", q.Until.Format(time.TimeOnly), gpu.ErrBadPlace)
		}
	}
	return nil
}

// clash reports whether two slices of one GPU cannot be held by two.
func clash(a, b gpu.Slice) bool {
	switch {
	case a.Mode != b.Mode:
		return true
	case a.Mode == gpu.MIG:
		return overlap(a.Placement, b.Placement)
	}
	return a.Mode == gpu.Whole
}

// ready brings the GPU to where a container can use s. The instance is nil unless the GPU is cut.
func (f *Fleet) ready(ctx context.Context, c *card, holder string, s gpu.Slice) (*gpu.Instance, error) {
	if s.Mode == gpu.MIG {
		return f.carve(ctx, c, holder, s)
	}
	return nil, f.clear(ctx, c, holder, s)
}

// badPlace is a fault of the place that s names. With quarantine it is kept out of use from now on; without, what is
// seen of the GPU keeps it so for as long as it lasts.
type badPlace struct {
	why        string
	quarantine bool
	err        error
}

func (b *badPlace) Error() string {
	if b.err == nil {
		return b.why
	}
	return fmt.Sprintf("%s: %v", b.why, b.err)
}

func (b *badPlace) Unwrap() []error {
	if b.err == nil {
		return []error{gpu.ErrBadPlace}
	}
	return []error{gpu.ErrBadPlace, b.err}
}

// verdict turns what went wrong into what the engine is to know, and notes it. What the driver refuses is the place's
// fault; when it does not answer, nobody knows.
func (f *Fleet) verdict(ctx context.Context, c *card, s gpu.Slice, err error) error {
	bad, isBad := errors.AsType[*badPlace](err)
	switch {
	case isBad && bad.quarantine:
		f.quarantine(s, bad.Error(), false)
		return &badPlace{why: bad.why} // what the driver or a daemon has said of others is not the user's to know
	case isBad, ctx.Err() != nil:
		return err
	case isGone(err):
		f.blame(c, err)
		f.later(c)
		return &badPlace{why: "the GPU is lost", err: err}
	case errors.Is(err, gpu.ErrDenied):
		return errs.New(errs.Internal, "the service may not cut GPUs: %w", err).
			With("run it as root, or with read access to /proc/driver/nvidia/capabilities/mig/config")
	case errors.Is(err, gpu.ErrNotSupported):
		return &badPlace{why: "the GPU is not in the mode for it", err: errors.Join(err, f.describe(ctx, c))}
	}
	f.later(c)
	return err
}

// later has a GPU looked at soon.
func (f *Fleet) later(c *card) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c.due = true
	poke(f.wake)
}

// clear sees to it that a GPU that is not cut is there, and that nobody is on it who must not be.
func (f *Fleet) clear(ctx context.Context, c *card, holder string, s gpu.Slice) error {
	if err := f.askHealth(ctx, c); err != nil {
		return err
	}
	if err := f.describe(ctx, c); err != nil {
		return err
	}
	if d := f.deviceOf(c); d.MIGEnabled {
		return &badPlace{why: "it is cut into MIG instances"}
	}
	if s.Mode == gpu.Shared {
		return nil
	}
	leases := f.heldOn(c.uuid)
	left, err := f.settled(ctx, c, func(p gpu.ProcessUse) bool {
		who := f.whose(p.PID)
		switch {
		case who == holder || shares(leases, holder, who):
			return false
		case s.Mode == gpu.MPS:
			return who == "" && !isDaemon(f.cfg.Proc, p.PID)
		}
		return true
	})
	if err != nil {
		return err
	}
	return f.crowded(ctx, c, left)
}

// crowded is the error of a place that processes are on. The GPU is looked at again, which keeps the place out of use.
// Who reads the error may be any user: whose the processes are is for the log and the inventory.
func (f *Fleet) crowded(ctx context.Context, c *card, left []gpu.ProcessUse) error {
	if len(left) == 0 {
		return nil
	}
	if err := f.watch(ctx, c, false); err != nil {
		return err
	}
	f.log.Warn(
		"a place on a GPU is not free though nobody holds it", "gpu", c.uuid, "used_by",
		f.named(f.sort(c, left, f.heldOn(c.uuid))),
	)
	return &badPlace{why: "something is still on it"}
}

// shares reports whether two workloads are both on one lease: who holds it, and who has borrowed it.
func shares(leases []gpu.Lease, a, b string) bool {
	return slices.ContainsFunc(leases, func(l gpu.Lease) bool { return on(l, a) && on(l, b) })
}

// bind says what the container needs, once the GPU is ready for it.
func (f *Fleet) bind(ctx context.Context, c *card, holder string, s gpu.Slice, in *gpu.Instance) (gpu.Binding, error) {
	share, err := f.share(ctx, c, holder, s)
	if err != nil {
		return gpu.Binding{}, f.verdict(ctx, c, s, err)
	}
	b, err := f.cfg.Bind(f.deviceOf(c), in, s, holder)
	if err != nil {
		return gpu.Binding{}, err
	}
	if len(share.Env) > 0 {
		b.Env = maps.Clone(b.Env)
		if b.Env == nil {
			b.Env = map[string]string{}
		}
		maps.Copy(b.Env, share.Env)
	}
	b.Mounts = slices.Concat(b.Mounts, share.Mounts)
	if s.Tier == gpu.Cgroup && b.Limit == 0 {
		b.Limit = s.Memory
	}
	return b, nil
}

// share notes that a workload is on a GPU that several use, and gets its share from the daemon.
func (f *Fleet) share(ctx context.Context, c *card, holder string, s gpu.Slice) (mps.Share, error) {
	if s.Mode != gpu.MPS && s.Mode != gpu.Shared {
		return mps.Share{}, nil
	}
	if err := f.noteUse(ctx, use{Holder: holder, Slice: s}); err != nil || s.Mode == gpu.Shared {
		return mps.Share{}, err
	}
	if f.cfg.MPS == nil {
		return mps.Share{}, &badPlace{why: "the service runs no MPS daemons"}
	}
	uid := -1
	if f.cfg.User != nil {
		uid = f.cfg.User(holder)
	}
	share, err := f.cfg.MPS.Share(ctx, c.uuid, holder, uid, s.Percent, s.Memory)
	if errors.Is(err, gpu.ErrBadPlace) {
		err = &badPlace{why: "its MPS daemon", quarantine: true, err: err}
	}
	return share, err
}

func (f *Fleet) noteUse(ctx context.Context, u use) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.book.putUse(ctx, u)
}
