//go:build cgo

package nvml

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"slipway/internal/gpu"
)

// Config says with what a driver works.
type Config struct {
	Library nvml.Interface // nil: the host's
	// where the minor numbers of MIG's capabilities stand; empty: /proc/driver/nvidia-caps/mig-minors
	Minors string
	Logger *slog.Logger
}

// Driver is a gpu.Driver.
type Driver struct {
	lib    nvml.Interface
	minors string
	log    *slog.Logger

	mu     sync.Mutex
	cards  map[string]*card // by UUID: all that have ever been seen
	events *events
}

var _ gpu.Driver = (*Driver)(nil)

// card is one GPU.
type card struct {
	uuid     string
	index    int
	handle   nvml.Device // nil while it is lost
	change   sync.Mutex  // held while instances or modes of the GPU change
	meter    meter
	profiles []profile // they never change; nil: not read yet
}

// New opens the library. Without one, or without a driver, the error is gpu.ErrNoDriver and says what to do.
func New(cfg Config) (*Driver, error) {
	d := &Driver{
		lib: cfg.Library, minors: cmp.Or(cfg.Minors, "/proc/driver/nvidia-caps/mig-minors"), log: cfg.Logger,
		cards: map[string]*card{}, events: &events{xids: map[string]int{}, count: map[string]int{}},
	}
	if d.lib == nil {
		d.lib = nvml.New()
	}
	if err := fault(d.lib.Init(), "open NVIDIA's library"); err != nil {
		return nil, noDriver(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.look(); err != nil {
		_ = d.lib.Shutdown()
		return nil, err
	}
	d.listen()
	return d, nil
}

// Close gives the library back.
func (d *Driver) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.deafen()
	for _, c := range d.cards {
		c.meter.forget()
	}
	return fault(d.lib.Shutdown(), "close NVIDIA's library")
}

// has reports whether the library knows a function: calling one that it lacks ends the process.
func (d *Driver) has(function string) bool { return d.lib.Extensions().LookupSymbol(function) == nil }

// look finds the GPUs that are there. d.mu is held.
func (d *Driver) look() error {
	count, ret := d.lib.DeviceGetCount()
	if err := fault(ret, "count GPUs"); err != nil {
		return err
	}
	for _, c := range d.cards {
		c.handle = nil
	}
	for i := range count {
		if err := d.meet(i); err != nil {
			d.log.Warn("a GPU does not answer", "index", i, "error", err)
		}
	}
	return nil
}

// meet takes down one GPU.
func (d *Driver) meet(index int) error {
	handle, ret := d.lib.DeviceGetHandleByIndex(index)
	if err := fault(ret, "open GPU %d", index); err != nil {
		return err
	}
	uuid, ret := handle.GetUUID()
	if err := fault(ret, "ask GPU %d for its UUID", index); err != nil {
		return err
	}
	c := d.cards[uuid]
	if c == nil {
		c = &card{uuid: uuid}
		d.cards[uuid] = c
	}
	c.index, c.handle = index, handle
	return nil
}

// card finds a GPU, and its handle as it is now.
func (d *Driver) card(ctx context.Context, uuid string) (*card, nvml.Device, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.cards[uuid]; c == nil || c.handle == nil {
		if err := d.look(); err != nil {
			return nil, nil, err
		}
	}
	c := d.cards[uuid]
	switch {
	case c == nil:
		return nil, nil, fmt.Errorf("GPU %s: %w", uuid, gpu.ErrNotFound)
	case c.handle == nil:
		return c, nil, fmt.Errorf("GPU %s: %w", uuid, gpu.ErrLost)
	}
	return c, c.handle, nil
}

// System says which driver there is.
func (d *Driver) System(ctx context.Context) (gpu.System, error) {
	if err := ctx.Err(); err != nil {
		return gpu.System{}, err
	}
	var s gpu.System
	var ret nvml.Return
	if s.Driver, ret = d.lib.SystemGetDriverVersion(); ret != nvml.SUCCESS {
		return s, fault(ret, "ask for the driver's version")
	}
	if s.NVML, ret = d.lib.SystemGetNVMLVersion(); ret != nvml.SUCCESS {
		return s, fault(ret, "ask for the library's version")
	}
	s.CUDA, ret = d.lib.SystemGetCudaDriverVersion()
	return s, fault(ret, "ask for the CUDA version of the driver")
}

// numbers reads the capabilities' minor numbers; none where MIG has never been on.
func (d *Driver) numbers() (minors, error) {
	f, err := os.Open(d.minors)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, err := parseMinors(f)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", d.minors, err)
	}
	return m, nil
}
