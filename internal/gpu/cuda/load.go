package cuda

import (
	"context"
	"errors"
	"fmt"
	"time"

	"slipway/internal/errs"
)

const (
	period    = 100 * time.Millisecond // of work and rest
	burst     = 5 * time.Millisecond   // about how long one kernel takes
	perSM     = 8                      // blocks a processor, to fill it
	maxRounds = 1 << 28
)

// Report is what a load came to.
type Report struct {
	Device  string  `json:"device"`
	UUID    string  `json:"uuid"`
	Seconds float64 `json:"seconds"`
	Busy    float64 `json:"busy_seconds"` // waited for kernels; under time slicing others ran meanwhile
	Kernels int     `json:"kernels"`
	Rounds  float64 `json:"rounds"` // of each thread: Rounds/Seconds is the throughput
	Memory  int64   `json:"memory"` // bytes held
}

// Load keeps the first device that this process sees busy for so many seconds: with kernels for the part duty (0 to 1)
// of the time, holding memory bytes. It returns early, with what was done until then, when ctx ends.
func Load(ctx context.Context, seconds, duty float64, memory int64) (Report, error) {
	return LoadFrom(ctx, "", seconds, duty, memory)
}

// LoadFrom is Load with the driver library of a directory.
func LoadFrom(ctx context.Context, dir string, seconds, duty float64, memory int64) (Report, error) {
	switch {
	case !(seconds > 0 && seconds <= 86400):
		return Report{}, errs.Bad("seconds", seconds, "more than 0, at most 86400")
	case !(duty >= 0 && duty <= 1):
		return Report{}, errs.Bad("duty", duty, "0 to 1")
	case memory < 0:
		return Report{}, errs.Bad("memory", memory, "0 or more bytes")
	}
	d, err := Open(dir)
	if err != nil {
		return Report{}, fmt.Errorf("load the driver: %w", err)
	}
	devices, err := d.Devices()
	if err != nil {
		return Report{}, err
	}
	if len(devices) == 0 {
		return Report{}, errs.New(errs.Missing, "the driver shows no device to this process").
			With("check CUDA_VISIBLE_DEVICES")
	}
	return devices[0].load(ctx, time.Duration(seconds*float64(time.Second)), duty, memory)
}

func (d Device) load(ctx context.Context, whole time.Duration, duty float64, memory int64) (r Report, err error) {
	r = Report{Device: d.Name, UUID: d.UUID.String(), Memory: memory}
	c, err := d.Open()
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if memory > 0 {
		if _, err := c.Alloc(memory); err != nil {
			return r, fmt.Errorf("hold %d bytes: %w", memory, err)
		}
	}
	blocks := max(d.SMs, 1) * perSM
	out, err := c.Alloc(int64(blocks) * threads * 4)
	if err != nil {
		return r, err
	}
	m, _, err := c.LoadKernels()
	if err != nil {
		return r, err
	}
	w := worker{rounds: 1024, spin: func(rounds uint32) error { return m.spin(out, blocks, rounds) }}
	err = w.work(ctx, whole, duty, &r)
	return r, errors.Join(err, m.Close())
}

// worker runs kernels, each of as many rounds as take about burst.
type worker struct {
	spin   func(rounds uint32) error // runs one
	rounds uint32
}

func (w *worker) work(ctx context.Context, whole time.Duration, duty float64, r *Report) error {
	began := time.Now()
	defer func() { r.Seconds = time.Since(began).Seconds() }()
	for end := began.Add(whole); ctx.Err() == nil && time.Now().Before(end); {
		start := time.Now()
		for busy := time.Duration(duty * float64(period)); ctx.Err() == nil && time.Since(start) < busy; {
			if err := w.once(r); err != nil {
				return err
			}
		}
		rest := time.NewTimer(min(time.Until(start.Add(period)), time.Until(end)))
		select {
		case <-rest.C:
		case <-ctx.Done():
			rest.Stop()
		}
	}
	return nil
}

func (w *worker) once(r *Report) error {
	start := time.Now()
	if err := w.spin(w.rounds); err != nil {
		return err
	}
	took := time.Since(start)
	r.Kernels++
	r.Rounds += float64(w.rounds)
	r.Busy += took.Seconds()
	switch {
	case took < burst/2 && w.rounds < maxRounds:
		w.rounds *= 2
	case took > 2*burst && w.rounds > 1:
		w.rounds /= 2
	}
	return nil
}
