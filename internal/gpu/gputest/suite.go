// Package gputest is the suite that every gpu.Driver passes: the real one, its client over a pipe, and the simulated
// one.
//
// It promises to leave a GPU as it found it. It cuts the first GPU that has MIG on, which must be empty, and changes no
// mode.
package gputest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"slipway/internal/gpu"
)

// Crowd is what a driver may have besides, for the cases that need a process on an instance. To others they do not
// apply.
type Crowd interface {
	// Busy brings a process onto an instance until leave is called.
	Busy(uuid string, gi int) (pid int, leave func(), err error)
}

// Run puts a driver through the suite. open is called for each case, and gives a driver that finds a GPU with MIG on
// and no instances; the suite closes it. A driver that is a Crowd is asked more.
func Run(t *testing.T, open func(t *testing.T) gpu.Driver) {
	cases := cases()
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(name, func(t *testing.T) {
			b := bench{Driver: open(t)}
			t.Cleanup(func() {
				if err := b.Close(); err != nil {
					t.Errorf("Close() = %v", err)
				}
			})
			b.dev = b.cuttable(t)
			t.Cleanup(func() { b.clear(t) })
			cases[name](t, b)
		})
	}
}

func cases() map[string]func(*testing.T, bench) {
	return map[string]func(*testing.T, bench){
		"says what it is":                        saysWhatItIs,
		"devices are sane":                       devicesAreSane,
		"tables are sane":                        tablesAreSane,
		"a healthy GPU is said to be":            healthy,
		"a GPU that there is none of":            unknownGPU,
		"an ended context does nothing":          endedContext,
		"every profile can be cut":               everyProfile,
		"a GPU is cut full":                      cutFull,
		"what overlaps is refused":               overlapRefused,
		"what a profile allows at most holds":    mostHolds,
		"what is in no table is refused":         unknownRefused,
		"destroyed is gone and its place free":   destroyedIsGone,
		"destroying what is gone is success":     destroyTwice,
		"what is in use stays":                   inUseStays,
		"MIG on is on":                           onIsOn,
		"a cut GPU has no limits by cgroup":      noLimits,
		"a cut GPU is read by instance":          readCut,
		"a process is seen where it is":          processIsSeen,
		"a GPU that is not cut is read as whole": readUncut,
		"one of many at one place wins":          onePlace,
		"many at many places at once":            manyPlaces,
	}
}

// bench is a driver with the words in which the cases are told, and the GPU that they are about.
type bench struct {
	gpu.Driver
	dev gpu.Device
}

// cuttable finds the GPU to cut.
func (b bench) cuttable(t *testing.T) gpu.Device {
	t.Helper()
	for _, dev := range b.devices(t) {
		if !dev.MIGEnabled {
			continue
		}
		b.dev = dev
		if there := b.instances(t); len(there) > 0 {
			t.Fatalf("%s is cut already: %+v; the suite needs it empty", dev.UUID, there)
		}
		return dev
	}
	t.Fatal("no GPU has MIG on")
	return gpu.Device{}
}

// clear leaves the GPU empty, whatever the case did.
func (b bench) clear(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	there, err := b.Instances(ctx, b.dev.UUID)
	for _, in := range there {
		err = errors.Join(err, b.DestroyInstance(ctx, b.dev.UUID, in.GI))
	}
	if err != nil {
		t.Errorf("clear %s: %v", b.dev.UUID, err)
	}
}

func (b bench) devices(t *testing.T) []gpu.Device {
	t.Helper()
	all, err := b.Devices(t.Context())
	if err != nil || len(all) == 0 {
		t.Fatalf("Devices() = %+v, %v", all, err)
	}
	return all
}

func (b bench) instances(t *testing.T) []gpu.Instance {
	t.Helper()
	all, err := b.Instances(t.Context(), b.dev.UUID)
	if err != nil {
		t.Fatalf("Instances(%s) = %v", b.dev.UUID, err)
	}
	return all
}

// holds checks that the GPU is cut into exactly these.
func (b bench) holds(t *testing.T, want ...gpu.Instance) {
	t.Helper()
	key := func(in gpu.Instance) int { return in.Placement.Start }
	got := b.instances(t)
	byStart := func(x, y gpu.Instance) int { return key(x) - key(y) }
	slices.SortFunc(got, byStart)
	slices.SortFunc(want, byStart)
	if !slices.EqualFunc(got, want, sameInstance) {
		t.Errorf("%s is cut into %+v, not %+v", b.dev.UUID, got, want)
	}
}

func sameInstance(x, y gpu.Instance) bool {
	return x.GPU == y.GPU && x.UUID == y.UUID && x.GI == y.GI && x.CI == y.CI && x.Profile == y.Profile &&
		x.Placement == y.Placement &&
		slices.Equal(x.Caps, y.Caps)
}

func (b bench) create(t *testing.T, p gpu.Profile, at gpu.Placement) gpu.Instance {
	t.Helper()
	in, err := b.CreateInstance(t.Context(), b.dev.UUID, p.Name, at)
	if err != nil {
		t.Fatalf("CreateInstance(%s at %v) = %v", p.Name, at, err)
	}
	if in.GPU != b.dev.UUID || in.UUID == "" || in.GI < 0 || in.CI < 0 || in.Profile != p.Name || in.Placement != at {
		t.Errorf("CreateInstance(%s at %v) = %+v", p.Name, at, in)
	}
	return in
}

func (b bench) destroy(t *testing.T, gi int) {
	t.Helper()
	if err := b.DestroyInstance(t.Context(), b.dev.UUID, gi); err != nil {
		t.Errorf("DestroyInstance(%d) = %v", gi, err)
	}
}

// refuses checks that an instance is not made, and why.
func (b bench) refuses(t *testing.T, profile string, at gpu.Placement, why error) {
	t.Helper()
	if in, err := b.CreateInstance(t.Context(), b.dev.UUID, profile, at); !errors.Is(err, why) {
		t.Errorf("CreateInstance(%s at %v) = %+v, %v, not %v", profile, at, in, err, why)
	}
}

func (b bench) read(t *testing.T, uuid string) gpu.Reading {
	t.Helper()
	r, err := b.Read(t.Context(), uuid)
	if err != nil {
		t.Fatalf("Read(%s) = %v", uuid, err)
	}
	return r
}

// smallest is the profile that the GPU can be cut into most often.
func (b bench) smallest() gpu.Profile {
	return slices.MaxFunc(b.dev.Profiles, func(x, y gpu.Profile) int { return x.Max - y.Max })
}

// whole is the profile that takes all of the axis.
func (b bench) whole(t *testing.T) gpu.Profile {
	t.Helper()
	i := slices.IndexFunc(b.dev.Profiles, func(p gpu.Profile) bool {
		return len(p.Placements) == 1 && p.Placements[0] == gpu.Placement{Size: b.dev.Slots}
	})
	if i < 0 {
		t.Fatalf("%s has no profile over all %d slots", b.dev.Name, b.dev.Slots)
	}
	return b.dev.Profiles[i]
}
