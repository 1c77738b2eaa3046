package service

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"slipway/hubapi"
	"slipway/hubapi/server/api"
	"slipway/internal/config"
	"slipway/internal/errs"
	"slipway/internal/gpu"
	"slipway/internal/gpu/cdi"
	"slipway/internal/gpu/driverrpc"
	"slipway/internal/gpu/fakegpu"
	"slipway/internal/gpu/fleet"
	"slipway/internal/gpu/metering"
	"slipway/internal/gpu/mps"
	"slipway/internal/gpu/placement"
	"slipway/internal/gpu/publish"
	"slipway/internal/programs"
	"slipway/internal/programs/install"
	"slipway/spawner"
	"slipway/spawner/engine"
)

// gpuParts are the service's GPUs. As spawner.GPUs they are the fleet, which is made after the engine: it asks the
// engine who holds what.
type gpuParts struct {
	*fleet.Fleet
	driver  gpu.Driver
	sampler *metering.Sampler
}

const (
	selfTestTime = 30 * time.Second // the test of a slice may take
	lendAfter    = 20 * time.Minute // a session and its slice are idle before the slice is lent
	recallGrace  = 30 * time.Second // a job has to end before it is killed, when its slice is called back
)

// leaseGPUs puts what the engine needs of GPUs into its configuration.
func (s *service) leaseGPUs(c *engine.Config) {
	g := s.cfg.GPU
	if g.Driver == config.DriverNone {
		return
	}
	c.GPUs, c.Group = &s.gpus, s.trustGroup
	if g.SelfTest {
		c.Launch.SelfTest = selfTestTime
	}
	c.Lend = engine.Lend{
		On: g.Preemption.Enabled, After: lendAfter,
		Recall: recallGrace, Idle: s.idleSlice,
	}
}

// makeGPUs opens the driver and finds out what there is.
func (s *service) makeGPUs(ctx context.Context) error {
	g := s.cfg.GPU
	if g.Driver == config.DriverNone {
		return nil
	}
	host, enclose := &cdi.Host{}, []string{s.self, mps.EncloseCommand}
	driver, boot, err := s.openDriver()
	if err != nil {
		return err
	}
	s.gpus.driver = driver
	s.gpus.Fleet, err = fleet.New(ctx, fleet.Config{
		Driver: s.gpus.driver, Store: s.store, Rules: rulesOf(g.Devices), Policy: placement.Policy(g.Placement),
		Headroom: g.Headroom, SwitchMIG: g.SwitchMIG, Boot: boot, Held: s.engine.Leases, Whose: s.holderOf,
		Use: s.gpuUse, Bind: host.Bind,
		MPS:  mps.New(mps.Config{Enclose: enclose, Exclusive: s.gpus.driver.SetExclusive, Logger: s.log}),
		User: s.uidOf, Changed: s.engine.GPUsChanged, Logger: s.log,
	})
	if err != nil {
		return err
	}
	s.gpus.sampler = metering.New(metering.Config{
		Read: s.gpus.Read, Inventory: s.gpus.Inventory, Held: s.engine.Leases, Whose: s.holderOf, Logger: s.log,
	})
	return nil
}

// openDriver opens the driver, and names this boot of the host to it: what is cut does not survive it. Simulated GPUs
// survive it, in a file.
func (s *service) openDriver() (d gpu.Driver, boot string, err error) {
	if s.cfg.GPU.Driver == config.DriverSimulated {
		d, err = fakegpu.New(
			fakegpu.Config{Models: s.cfg.GPU.Simulated, State: s.path("records", "simulated-gpus.json")},
		)
		return d, "", err
	}
	helper, err := driverrpc.Find(programs.GPUHelper)
	if err != nil {
		return nil, "", err
	}
	if err := install.SelfTest(helper, s.path("bin"), s.log); err != nil {
		return nil, "", err
	}
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, "", fmt.Errorf("find out which boot of the host this is: %w", err)
	}
	return driverrpc.New(
		driverrpc.Config{Argv: []string{helper, "drive"}, Logger: s.log},
	), strings.TrimSpace(string(id)), nil
}

// runGPUs looks after the GPUs until ctx ends.
func (s *service) runGPUs(ctx context.Context, each func(func() error)) {
	if s.gpus.Fleet == nil {
		return
	}
	each(func() error { return s.gpus.Run(ctx) })
	each(func() error { return s.gpus.sampler.Run(ctx) })
	each(func() error { return s.runNotifier(ctx) })
	s.runWatchdog(ctx, each)
}

func rulesOf(rules []config.GPURule) []fleet.Rule {
	var out []fleet.Rule
	for _, r := range rules {
		out = append(out, fleet.Rule{
			Match: r.Match, Mode: gpu.Mode(r.Mode), Layout: r.Layout, Adopt: r.Adopt, AtOnce: r.MaxWorkloads,
			Drain: r.Drain,
		})
	}
	return out
}

// trustGroup names those with whom a user shares a GPU that keeps nobody apart; empty: nobody. The engine lets a user
// who is in no group stand for herself by a name that ends with her hub's, which has no quotes: nobody is taken for a
// group by what she is called.
func (s *service) trustGroup(hub string, user spawner.User) string {
	for _, name := range slices.Sorted(maps.Keys(s.cfg.GPU.Sharing)) {
		if slices.Contains(s.cfg.GPU.Sharing[name], string(user)) {
			return fmt.Sprintf("%q of realm %q", name, s.realms[hub])
		}
	}
	return ""
}

// idleSlice says since when a slice has idled, if a job may start on its GPU and would find most of its memory free.
// The engine asks under its lock.
func (s *service) idleSlice(holder string, slice gpu.Slice) (time.Time, bool) {
	if !s.gpus.Usable(slice.GPU) {
		return time.Time{}, false
	}
	since, _, known := s.gpus.sampler.Idle(holder)
	used := s.gpus.sampler.Use(holder).Memory
	return since, known && !since.IsZero() && used != nil && *used <= slice.Memory/10
}

func (s *service) gpuUse(holder string) gpu.Use {
	if s.gpus.sampler == nil {
		return gpu.Use{Unknown: "there is no measurement of it yet"}
	}
	return s.gpus.sampler.Use(holder)
}

// gpuSeries returns how much of its slice a workload has used over time.
func (s *service) gpuSeries(holder string) []hubapi.GPUPoint {
	var out []hubapi.GPUPoint
	if s.gpus.sampler != nil {
		for _, p := range s.gpus.sampler.Series(holder) {
			out = append(out, hubapi.GPUPoint(p))
		}
	}
	return out
}

// sliceUse is the engine's Config.SliceUse.
func (s *service) sliceUse(w spawner.Workload) *spawner.SliceUse {
	if s.gpus.sampler == nil {
		return nil
	}
	use, u := s.gpus.sampler.Use(string(w.ID)), spawner.SliceUse{}
	if use.Peak == nil && use.Energy == nil && use.SM == nil {
		return nil
	}
	if use.Peak != nil {
		u.Memory = *use.Peak
	}
	if use.Energy != nil {
		u.Energy = *use.Energy
	}
	u.Busy = meanBusy(s.gpus.sampler.Series(string(w.ID)), w.Up)
	return &u
}

// meanBusy returns how busy a slice was in the mean from a time on, from 0 to 1. Points of long ago stand for more time
// than the last: each counts until the next begins.
func meanBusy(points []metering.Point, since time.Time) float64 {
	sum, span := 0.0, 0.0
	for i, p := range points {
		length := 10 * time.Second
		if i+1 < len(points) {
			length = points[i+1].At.Sub(p.At)
		}
		if p.SM == nil || p.At.Add(length).Before(since) || length <= 0 {
			continue
		}
		sum, span = sum+*p.SM*length.Seconds(), span+length.Seconds()
	}
	if span == 0 {
		return 0
	}
	return min(sum/span/100, 1)
}

// uidOf returns the user id of a workload's processes; -1: it is not known.
func (s *service) uidOf(holder string) int {
	ctx := context.Background()
	w, err := s.engine.Get(ctx, spawner.Caller{System: true}, spawner.ID(holder))
	if err != nil {
		return -1
	}
	a, err := s.account(ctx, w.Hub, w.Owner)
	if err != nil {
		return -1
	}
	return a.UID
}

// holderOf returns the workload that a process of this host belongs to; empty for any other process.
func (s *service) holderOf(pid int) string {
	text, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), "cgroup"))
	if err != nil {
		return ""
	}
	return string(cmp.Or(s.docker.Holder(string(text)), s.local.Holder(string(text))))
}

// publisher returns what writes the GPUs for matchmaking; nil where there are none.
func (s *service) publisher() func(string) (string, error) {
	if s.gpus.Fleet == nil {
		return nil
	}
	return s.publishGPUs
}

// publishGPUs writes the GPUs in a form for matchmaking.
func (s *service) publishGPUs(format string) (string, error) {
	host, _ := os.Hostname()
	o := publish.Options{Own: true, Resource: host}
	inv := s.gpus.sampler.Fill(s.gpus.Inventory())
	if inv.Problem != "" { // what was true before is not to be published, and nothing is not to be taken for the truth
		return "", errs.New(errs.Unavailable, "the GPUs cannot be asked for: %s", inv.Problem).With("look at `slipway doctor` on the service's host")
	}
	switch format {
	case "classad":
		return publish.ClassAd(inv, o), nil
	case "cms":
		return publish.CMS(inv, o), nil
	case "glue":
		text, err := publish.GLUE(inv, o)
		return string(text), err
	default:
		return "", errs.Bad("format", format, "one of "+strings.Join(hubapi.GPUFormats, ", "))
	}
}

// inventory returns what there is of GPUs; nil where there are none.
func (s *service) inventory() func() gpu.Inventory {
	if s.gpus.Fleet == nil {
		return nil
	}
	return func() gpu.Inventory { return s.gpus.sampler.Fill(s.gpus.Inventory()) }
}

// keeper returns what takes GPUs out of use; nil where there are none.
func (s *service) keeper() api.GPUKeeper {
	if s.gpus.Fleet == nil {
		return nil
	}
	return s.gpus.Fleet
}
