package fakegpu

import (
	"context"
	"fmt"
	"time"

	"slipway/internal/gpu"
)

// Op is a call of the Driver that can fail on demand.
type Op string

// The calls.
const (
	OpSystem    Op = "system"
	OpDevices   Op = "devices"
	OpInstances Op = "instances"
	OpCreate    Op = "create"
	OpDestroy   Op = "destroy"
	OpMIG       Op = "mig"
	OpExclusive Op = "exclusive"
	OpHealth    Op = "health"
	OpRead      Op = "read"
	OpLimit     Op = "limit"
)

// Fault is what goes wrong. At most one is used up by a call: the oldest that matches.
type Fault struct {
	On Op // empty: every call
	// Err is what the call fails with, having done nothing; such as gpu.ErrInUse, gpu.ErrDenied, gpu.ErrNoDriver.
	Err error
	// Delay is how long the call takes. Creation and destruction are half done meanwhile: the GPU instance is there
	// without its compute instance, and stays so when the caller does not wait for the end.
	Delay time.Duration
	// Remnant leaves a GPU instance without a compute instance. Destruction reports success nevertheless, creation an
	// error.
	Remnant bool
	// Times is how many calls it meets; 0: all.
	Times int
	// For is how long from now it may meet any; 0: until Heal.
	For time.Duration
}

// fault is a Fault that waits for calls.
type fault struct {
	Fault
	uuid  string // empty: every GPU
	until time.Time
}

// Fail has calls about a GPU fail from now on; of all GPUs, and those that are about none, when uuid is empty.
func (d *Driver) Fail(uuid string, f Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = append(d.faults, &fault{Fault: f, uuid: uuid, until: deadline(f.For)})
}

// Sicken has a GPU report h: a lost GPU, an Xid, ECC errors, rows that wait for a reset. It lasts that long, or until
// Heal when 0. A lost GPU is missing from Devices, and all else about it but Health fails with gpu.ErrLost.
func (d *Driver) Sicken(uuid string, h gpu.Health, lasts time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if b := d.board(uuid); b != nil {
		b.sick, b.sickUntil = h, deadline(lasts)
	}
}

// Heal ends all that Fail and Sicken began.
func (d *Driver) Heal() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = nil
	for _, b := range d.boards {
		b.sick, b.sickUntil = gpu.Health{}, time.Time{}
	}
}

// Health is what Sicken said, and the temperature.
func (d *Driver) Health(ctx context.Context, uuid string) (gpu.Health, error) {
	_, err := d.call(ctx, OpHealth, uuid)
	d.mu.Lock()
	defer d.mu.Unlock()
	b := d.board(uuid)
	if err == nil && b == nil {
		err = gpu.ErrNotFound
	}
	if err != nil {
		return gpu.Health{}, fmt.Errorf("health of %s: %w", uuid, err)
	}
	h := b.health()
	if h.Temperature == 0 && !h.Lost {
		h.Temperature = b.temperature(time.Now())
	}
	return h, nil
}

// health is what the GPU reports now. The lock is held.
func (b *board) health() gpu.Health {
	if !b.sickUntil.IsZero() && !time.Now().Before(b.sickUntil) {
		return gpu.Health{}
	}
	return b.sick
}

func deadline(lasts time.Duration) time.Time {
	if lasts == 0 {
		return time.Time{}
	}
	return time.Now().Add(lasts)
}

// call meets a call with the fault that is due, and waits as long as it says.
func (d *Driver) call(ctx context.Context, op Op, uuid string) (Fault, error) {
	if err := ctx.Err(); err != nil {
		return Fault{}, err
	}
	f := d.due(op, uuid)
	if f.Err == nil && (op == OpCreate || op == OpDestroy) {
		return f, nil // these wait by themselves, half done
	}
	if err := wait(ctx, f.Delay); err != nil {
		return Fault{}, err
	}
	return f, f.Err
}

// due finds the fault that meets a call, and uses it up.
func (d *Driver) due(op Op, uuid string) Fault {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, f := range d.faults {
		over := !f.until.IsZero() && !time.Now().Before(f.until)
		if over || f.uuid != "" && f.uuid != uuid || f.On != "" && f.On != op {
			continue
		}
		if f.Times == 1 {
			d.faults = append(d.faults[:i:i], d.faults[i+1:]...)
		} else if f.Times > 1 {
			f.Times--
		}
		return f.Fault
	}
	return Fault{}
}

func wait(ctx context.Context, delay time.Duration) error {
	if delay <= 0 {
		return nil
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
