package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"slipway/internal/clock"
	"slipway/internal/gpu"
)

// act is what is to be done next on the way to an instance.
type act int

const (
	useIt     act = iota // it is there
	destroyIt            // an own one that nobody holds is in its way
	makeIt               // the place is free
	leaveIt              // the place cannot be had
)

// found is an instance, and what it is to us.
type found struct {
	gpu.Instance
	own     bool
	held    bool // by another workload
	spoilt  bool // to be made anew
	offered bool // it may be used, own or not
}

// step says what is to be done next to have the instance that s names on a GPU, and with which instance. static is for
// GPUs whose cut others than the request decide: there nothing that can be used is destroyed.
func step(s gpu.Slice, all []found, static, adopt bool) (do act, with gpu.Instance, why string) {
	for _, in := range all {
		if !overlap(in.Placement, s.Placement) {
			continue
		}
		equal := in.Placement == s.Placement && in.Profile == s.Profile && complete(in.Instance)
		switch {
		case in.held:
			return leaveIt, in.Instance, fmt.Sprintf(
				"%s at %d is held by another workload", in.Profile, in.Placement.Start,
			)
		case equal && in.offered && !in.spoilt:
			return useIt, in.Instance, ""
		case !in.own:
			return leaveIt, in.Instance, fmt.Sprintf(
				"somebody else has made %s at %d, which is left alone", in.Profile, in.Placement.Start,
			)
		case static && complete(in.Instance) && !in.spoilt:
			return leaveIt, in.Instance, fmt.Sprintf(
				"%s at %d belongs to the layout and stays", in.Profile, in.Placement.Start,
			)
		}
		return destroyIt, in.Instance, ""
	}
	if adopt {
		return leaveIt, gpu.Instance{}, "the instance is not there, and those of this GPU are made by somebody else (gpu.devices: adopt)"
	}
	return makeIt, gpu.Instance{}, ""
}

// carve makes the instance that s names, or finds it.
func (f *Fleet) carve(ctx context.Context, c *card, holder string, s gpu.Slice) (*gpu.Instance, error) {
	made := false
	for tries := 0; ; {
		all, err := f.list(ctx, c)
		if err != nil {
			return nil, err
		}
		do, in, why := f.step(c, holder, s, all)
		switch do {
		case useIt:
			return f.check(ctx, c, holder, in, made)
		case leaveIt:
			return nil, &badPlace{why: why}
		case destroyIt:
			err = f.destroy(ctx, c, in)
		case makeIt:
			if tries++; tries > 3 {
				return nil, &badPlace{why: "its instance is gone each time it has been made", quarantine: true}
			}
			err, made = f.make(ctx, c, s.Profile, s.Placement, tries), true
		}
		if err != nil {
			return nil, err
		}
	}
}

// step gathers what step decides by.
func (f *Fleet) step(c *card, holder string, s gpu.Slice, all []gpu.Instance) (act, gpu.Instance, string) {
	leases := f.heldOn(c.uuid)
	f.mu.Lock()
	defer f.mu.Unlock()
	var known []found
	for _, in := range all {
		_, own := f.book.own(in)
		known = append(known, found{
			Instance: in, own: own, offered: own || c.rule.Adopt, spoilt: f.book.spoilt(in),
			held: heldByOther(leases, holder, in),
		})
	}
	return step(s, known, c.static(), c.rule.Adopt)
}

func heldByOther(leases []gpu.Lease, holder string, in gpu.Instance) bool {
	for _, l := range leases {
		if l.Slice.Mode == gpu.MIG && l.Slice.Placement == in.Placement && !on(l, holder) {
			return true
		}
	}
	return false
}

// destroy removes an own instance that nobody holds, and sees it gone. One that stays is quarantined.
func (f *Fleet) destroy(ctx context.Context, c *card, in gpu.Instance) error {
	until := time.Now().Add(patience)
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		err := f.cfg.Driver.DestroyInstance(ctx, c.uuid, in.GI)
		if err != nil && (ctx.Err() != nil || isGone(err) || errors.Is(err, gpu.ErrDenied)) {
			return err
		}
		all, listErr := f.list(ctx, c)
		if listErr != nil {
			return listErr
		}
		if !there(all, in) {
			return nil
		}
		if time.Now().Add(wait).After(until) {
			return f.stuck(c, in, err)
		}
		if !clock.Sleep(ctx, wait) {
			return ctx.Err()
		}
	}
}

// there reports whether an instance, or what is left of it, still lies in its place.
func there(all []gpu.Instance, in gpu.Instance) bool {
	now, ok := byGI(all, in.GI)
	return ok && now.Placement == in.Placement && now.Profile == in.Profile
}

// stuck quarantines the place of an instance that cannot be destroyed. The rest of the GPU stays in use.
func (f *Fleet) stuck(c *card, in gpu.Instance, err error) error {
	what := fmt.Sprintf("%s at %d cannot be destroyed", in.Profile, in.Placement.Start)
	why := what + ": it leaves a part of itself each time"
	if errors.Is(err, gpu.ErrInUse) {
		why = what + ": it is held open by " + f.users(f.deviceOf(c), in)
	}
	d := f.deviceOf(c)
	s := gpu.Slice{
		GPU: c.uuid, Model: d.Name, Mode: gpu.MIG, Name: in.Profile, Profile: in.Profile, Placement: in.Placement,
	}
	f.quarantine(s, why, true)
	return &badPlace{why: what, err: err} // by whom is not the user's to know
}

// make makes an instance. That it is ours is in the store before: who finds it after a crash knows it. Whether it came
// to be right is for the next listing to say; the error is what no further try can mend.
func (f *Fleet) make(ctx context.Context, c *card, profile string, at gpu.Placement, tries int) error {
	r := record{GPU: c.uuid, Profile: profile, Placement: at, GI: -1, CI: -1, Made: time.Now(), Boot: f.cfg.Boot}
	if err := f.noteInstance(ctx, r); err != nil {
		return err
	}
	in, err := f.cfg.Driver.CreateInstance(ctx, c.uuid, profile, at)
	switch {
	case err == nil && in.Placement == at && in.Profile == profile:
		r.GI, r.CI, r.UUID = in.GI, in.CI, in.UUID
		return f.noteInstance(ctx, r)
	case err == nil:
		return f.astray(ctx, c, in, at)
	case errors.Is(err, gpu.ErrNoRoom):
		return f.occupied(ctx, c, at, err)
	case ctx.Err() != nil, errors.Is(err, gpu.ErrLost), errors.Is(err, gpu.ErrDenied), errors.Is(err, gpu.ErrNotSupported):
		return err
	}
	// Something was in the way, or half of it was made. The listing shows which; if the driver does not answer that is
	// seen there.
	if tries == 3 {
		return &badPlace{why: "its instance cannot be made", quarantine: true, err: err}
	}
	clock.Sleep(ctx, time.Duration(tries)*200*time.Millisecond)
	return ctx.Err()
}

// occupied is the error of a place that the driver says is taken though nothing of ours is there. What somebody else
// has just made there must not pass for ours, so that we meant to make it is forgotten.
func (f *Fleet) occupied(ctx context.Context, c *card, at gpu.Placement, err error) error {
	f.mu.Lock()
	forgotten := f.book.forget(ctx, placeKey(c.uuid, at))
	f.mu.Unlock()
	if forgotten != nil {
		return forgotten
	}
	all, listErr := f.list(ctx, c)
	if listErr != nil {
		return listErr
	}
	// When the listing shows what is in the way there is no need of a quarantine.
	return &badPlace{why: "the driver has no room there", quarantine: !covered(all, at), err: err}
}

// astray destroys an instance that the driver has made elsewhere than it was told to.
func (f *Fleet) astray(ctx context.Context, c *card, in gpu.Instance, at gpu.Placement) error {
	r := record{
		GPU: c.uuid, Profile: in.Profile, Placement: in.Placement, GI: in.GI, CI: in.CI, UUID: in.UUID,
		Made: time.Now(), Boot: f.cfg.Boot,
	}
	if err := f.noteInstance(ctx, r); err != nil {
		return err
	}
	if err := f.destroy(ctx, c, in); err != nil {
		return err
	}
	return &badPlace{
		why: fmt.Sprintf("the driver makes %s at %d in its place", in.Profile, in.Placement.Start), quarantine: true,
	}
}

func (f *Fleet) noteInstance(ctx context.Context, r record) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.book.note(ctx, r)
}

// check sees that the instance is what it is to be, and that nobody is on it who must not be. What it was known as is
// brought up to date: after a crash its record has no ids.
func (f *Fleet) check(ctx context.Context, c *card, holder string, in gpu.Instance, made bool) (*gpu.Instance, error) {
	if in.GPU != c.uuid {
		return nil, &badPlace{why: "the driver shows an instance of another GPU", quarantine: true}
	}
	if err := f.identify(ctx, in); err != nil || made {
		return &in, err
	}
	leases := f.heldOn(c.uuid)
	left, err := f.settled(ctx, c, func(p gpu.ProcessUse) bool {
		who := f.whose(p.PID)
		return p.GI == in.GI && who != holder && !shares(leases, holder, who)
	})
	if err == nil {
		err = f.crowded(ctx, c, left)
	}
	return &in, err
}

// identify notes the ids of an own instance.
func (f *Fleet) identify(ctx context.Context, in gpu.Instance) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	r, own := f.book.own(in)
	if !own {
		return nil
	}
	r.GI, r.CI, r.UUID = in.GI, in.CI, in.UUID
	return f.book.note(ctx, r)
}
