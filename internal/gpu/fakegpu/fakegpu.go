// Package fakegpu is a host full of GPUs that do not exist: a gpu.Driver that keeps the rules of real ones, for tests
// and for trying Slipway on a laptop.
//
// It promises to refuse what real GPUs refuse (placements that overlap or that there are none of, cutting with MIG off,
// destroying what is in use), to number instances as drivers do, and to measure only what each mode of a real GPU can
// measure. Faults come on demand (Fail, Sicken, Reset, Reboot), as do processes (Occupy, Leave). The same calls have
// the same results: nothing is drawn by chance. All it shows is marked by System.Simulated. It must not know who leases
// anything, and touches nothing but its own file.
package fakegpu

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"slipway/internal/errs"
	"slipway/internal/gpu"
)

// Config says what host it is.
type Config struct {
	// Models are its GPUs, by the names of Models; "H200/mig" begins with MIG on.
	Models []string
	// State is a file that remembers MIG modes and instances, so that they are there again when the service comes back.
	// Empty: nothing outlives the Driver.
	State string
	// R615 is a driver new enough to limit memory by cgroup.
	R615 bool
}

// Driver is the host's driver.
type Driver struct {
	state string
	r615  bool

	mu     sync.Mutex
	boards []*board
	faults []*fault
}

var _ gpu.Driver = (*Driver)(nil)

// board is one GPU. The Driver's lock guards all of it but changing.
type board struct {
	device    gpu.Device // as it is now
	wantMIG   bool       // after the next reset
	idle      int64      // mW
	busy      int64      // mW
	instances map[int]gpu.Instance
	processes map[int]running
	exclusive bool
	limits    map[string]int64
	sick      gpu.Health
	sickUntil time.Time // zero: for good
	energy    float64   // mJ, until measured
	measured  time.Time
	changing  chan struct{} // held by who changes instances or mode: one at a time
}

// New makes the host, as its file remembers it.
func New(cfg Config) (*Driver, error) {
	d := &Driver{state: cfg.State, r615: cfg.R615}
	for i, name := range cfg.Models {
		b, err := newBoard(i, name)
		if err != nil {
			return nil, err
		}
		d.boards = append(d.boards, b)
	}
	if err := d.load(); err != nil {
		return nil, fmt.Errorf("simulated GPUs: %w", err)
	}
	return d, nil
}

func newBoard(index int, name string) (*board, error) {
	word, mig := strings.CutSuffix(name, "/mig")
	m, ok := find(word)
	if !ok || mig && m.slots == 0 {
		remedy := "one of " + strings.Join(Models(), ", ") + `; with "/mig" at its end MIG is on from the beginning, where the model has it`
		return nil, errs.Bad("gpu.simulated", name, remedy)
	}
	dev := m.device
	dev.Index, dev.Minor, dev.UUID, dev.MIGEnabled = index, index, gpuUUID(index, m.word), mig
	dev.Bus = fmt.Sprintf("%08X:%02X:00.0", 0, 0x11+index)
	return &board{
		device: dev, wantMIG: mig, idle: m.idle, busy: m.busy, measured: time.Now(), changing: make(chan struct{}, 1),
		instances: map[int]gpu.Instance{}, processes: map[int]running{}, limits: map[string]int64{},
	}, nil
}

// System says that nothing of it exists.
func (d *Driver) System(ctx context.Context) (gpu.System, error) {
	if _, err := d.call(ctx, OpSystem, ""); err != nil {
		return gpu.System{}, fmt.Errorf("ask the driver what it is: %w", err)
	}
	s := gpu.System{Driver: "580.159.04", NVML: "13.580.159.04", CUDA: 13000, Simulated: true}
	if d.r615 {
		s.Driver, s.NVML, s.CUDA = "615.71.09", "13.615.71.09", 13040
	}
	return s, nil
}

// Devices returns all GPUs that are not lost.
func (d *Driver) Devices(ctx context.Context) ([]gpu.Device, error) {
	if _, err := d.call(ctx, OpDevices, ""); err != nil {
		return nil, fmt.Errorf("list GPUs: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	devices := make([]gpu.Device, 0, len(d.boards))
	for _, b := range d.boards {
		if !b.health().Lost {
			devices = append(devices, b.copyDevice())
		}
	}
	return devices, nil
}

// copyDevice keeps callers from writing into the tables.
func (b *board) copyDevice() gpu.Device {
	dev := b.device
	dev.Profiles = slices.Clone(dev.Profiles)
	for i, p := range dev.Profiles {
		dev.Profiles[i].Placements = slices.Clone(p.Placements)
	}
	return dev
}

// SetExclusive is remembered; Exclusive tells.
func (d *Driver) SetExclusive(ctx context.Context, uuid string, on bool) error {
	return d.at(ctx, OpExclusive, uuid, func(b *board) error {
		b.exclusive = on
		return nil
	})
}

// Exclusive tells what SetExclusive was last told.
func (d *Driver) Exclusive(uuid string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	b := d.board(uuid)
	return b != nil && b.exclusive
}

// LimitMemory is remembered, where the driver is new enough and the GPU is not cut; Limits tells.
func (d *Driver) LimitMemory(ctx context.Context, uuid, cgroup string, bytes int64) error {
	return d.at(ctx, OpLimit, uuid, func(b *board) error {
		switch {
		case !d.r615 || b.device.MIGEnabled:
			return gpu.ErrNotSupported
		case bytes == 0:
			delete(b.limits, cgroup)
		default:
			b.limits[cgroup] = bytes
		}
		return nil
	})
}

// Limits tells the limits of a GPU in bytes, by cgroup.
func (d *Driver) Limits(uuid string) map[string]int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	limits := map[string]int64{}
	if b := d.board(uuid); b != nil {
		for cgroup, bytes := range b.limits {
			limits[cgroup] = bytes
		}
	}
	return limits
}

// Close does nothing: the host stays as it is.
func (d *Driver) Close() error { return nil }

// board finds a GPU; nil when there is none. The lock is held.
func (d *Driver) board(uuid string) *board {
	i := slices.IndexFunc(d.boards, func(b *board) bool { return b.device.UUID == uuid })
	if i < 0 {
		return nil
	}
	return d.boards[i]
}

// reach finds a GPU that answers. The lock is held.
func (d *Driver) reach(uuid string) (*board, error) {
	b := d.board(uuid)
	if b == nil {
		return nil, gpu.ErrNotFound
	}
	if b.health().Lost {
		return nil, gpu.ErrLost
	}
	return b, nil
}

// at calls do for a GPU that answers, under the lock, after the faults that are due.
func (d *Driver) at(ctx context.Context, op Op, uuid string, do func(*board) error) error {
	_, err := d.call(ctx, op, uuid)
	if err == nil {
		err = d.locked(uuid, do)
	}
	if err != nil {
		return fmt.Errorf("%s of %s: %w", op, uuid, err)
	}
	return nil
}

func (d *Driver) locked(uuid string, do func(*board) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	b, err := d.reach(uuid)
	if err != nil {
		return err
	}
	return do(b)
}
