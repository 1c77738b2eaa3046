package fakegpu

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"slipway/internal/gpu"
)

// Process is one that has a context on a GPU.
type Process struct {
	PID    int
	GI     int   // on a GPU that is cut; else it is not looked at
	Memory int64 // bytes
	// Load is what it does so long after it came, in percent of the instance that it is on, or of the GPU. Nil:
	// nothing.
	Load func(after time.Duration) Load
}

// Load is what a process does at one moment.
type Load struct {
	SM     float64 // percent of the processors busy
	Kernel float64 // percent of the time in which any kernel runs: a loop of one thread shows 100
}

// Steady is a load that does not change: a kernel always runs, on so many percent of the processors.
func Steady(sm float64) func(time.Duration) Load {
	return func(time.Duration) Load { return Load{SM: sm, Kernel: 100} }
}

type running struct {
	Process
	since time.Time
}

func (r running) load(now time.Time) Load {
	if r.Load == nil {
		return Load{}
	}
	return r.Load(now.Sub(r.since))
}

// Occupy puts a process on a GPU. It fails as a CUDA program would: with gpu.ErrNotFound when there is no such
// instance, or only a remnant of it, and with gpu.ErrNoRoom when there is not so much memory.
func (d *Driver) Occupy(uuid string, p Process) error {
	err := d.locked(uuid, func(b *board) error {
		room := b.device.Memory
		if b.device.MIGEnabled {
			in, there := b.instances[p.GI]
			if !there || in.CI < 0 {
				return gpu.ErrNotFound
			}
			profile, _ := b.device.Profile(in.Profile)
			room = profile.Memory
		} else {
			p.GI = -1
		}
		if b.memory(p.GI)+p.Memory > room {
			return gpu.ErrNoRoom
		}
		now := time.Now()
		b.meter(now)
		b.processes[p.PID] = running{Process: p, since: now}
		return nil
	})
	if err != nil {
		return fmt.Errorf("process %d on %s: %w", p.PID, uuid, err)
	}
	return nil
}

// Leave ends a process, wherever it is.
func (d *Driver) Leave(pid int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, b := range d.boards {
		b.meter(time.Now())
		delete(b.processes, pid)
	}
}

// Read measures a GPU as its mode lets it be measured: with MIG on there is no utilisation, and processors are counted
// by instance, from Hopper on only; no processes are measured one by one. Energy and power are always those of the
// whole GPU.
func (d *Driver) Read(ctx context.Context, uuid string) (gpu.Reading, error) {
	var r gpu.Reading
	err := d.at(ctx, OpRead, uuid, func(b *board) error {
		now := time.Now()
		b.meter(now)
		r = gpu.Reading{
			Utilisation: -1, SM: -1, Energy: int64(b.energy), Power: int64(b.power(now)),
			Temperature: b.temperature(now), Processes: b.list(now),
		}
		for _, p := range b.processes {
			r.MemoryUsed += p.Memory
		}
		if b.device.MIGEnabled {
			r.Instances = b.uses(now)
			return nil
		}
		all := b.load(-1, now)
		r.Utilisation = all.Kernel
		if b.device.GPM {
			r.SM = all.SM
		}
		return nil
	})
	return r, err
}

func (b *board) list(now time.Time) []gpu.ProcessUse {
	all := make([]gpu.ProcessUse, 0, len(b.processes))
	for _, p := range b.processes {
		use := gpu.ProcessUse{PID: p.PID, Memory: p.Memory, GI: p.GI, CI: 0, SM: -1}
		if p.GI < 0 {
			use.CI, use.SM = -1, int(math.Round(min(p.load(now).SM, 100)))
		}
		all = append(all, use)
	}
	slices.SortFunc(all, func(a, b gpu.ProcessUse) int { return cmp.Compare(a.PID, b.PID) })
	return all
}

// uses measures the instances. A remnant has no device that could be asked.
func (b *board) uses(now time.Time) map[int]gpu.InstanceUse {
	uses := map[int]gpu.InstanceUse{}
	for gi, in := range b.instances {
		use := gpu.InstanceUse{SM: -1, MemoryUsed: -1}
		if in.CI >= 0 {
			use.MemoryUsed = b.memory(gi)
		}
		if in.CI >= 0 && b.device.GPM {
			use.SM = b.load(gi, now).SM
		}
		uses[gi] = use
	}
	return uses
}

// crowd counts the processes on an instance.
func (b *board) crowd(gi int) int {
	n := 0
	for _, p := range b.processes {
		if p.GI == gi {
			n++
		}
	}
	return n
}

func (b *board) memory(gi int) int64 {
	var sum int64
	for _, p := range b.processes {
		if p.GI == gi {
			sum += p.Memory
		}
	}
	return sum
}

// load sums what the processes of an instance do, or with -1 those of a GPU that is not cut.
func (b *board) load(gi int, now time.Time) Load {
	var sum Load
	for _, p := range b.processes {
		if p.GI == gi {
			l := p.load(now)
			sum.SM, sum.Kernel = sum.SM+l.SM, sum.Kernel+l.Kernel
		}
	}
	return Load{SM: min(sum.SM, 100), Kernel: min(sum.Kernel, 100)}
}

// busyShare is how much of the GPU's processors is busy, from 0 to 1.
func (b *board) busyShare(now time.Time) float64 {
	share := b.load(-1, now).SM / 100
	for gi, in := range b.instances {
		p, _ := b.device.Profile(in.Profile)
		share += b.load(gi, now).SM / 100 * float64(p.SMs) / float64(b.device.SMs)
	}
	return share
}

// power is in mW.
func (b *board) power(now time.Time) float64 {
	return float64(b.idle) + float64(b.busy-b.idle)*b.busyShare(now)
}

func (b *board) temperature(now time.Time) int { return 30 + int(40*b.busyShare(now)) }

// meter adds the energy since it was last called: power at the middle of each of at most a thousand steps.
func (b *board) meter(now time.Time) {
	elapsed := now.Sub(b.measured)
	steps := min(max(int(elapsed/(100*time.Millisecond)), 1), 1000)
	step := elapsed / time.Duration(steps)
	for i := range steps {
		b.energy += b.power(b.measured.Add(step*time.Duration(i)+step/2)) * step.Seconds()
	}
	b.measured = now
}
