package selftest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"slipway/internal/gpu"
	"slipway/internal/gpu/cuda"
)

const sickRemedy = "the GPU computes or copies wrongly: take it out of service"

// kernel has the driver compile a kernel and checks each of its results.
func (b *bench) kernel() outcome {
	if o, none := b.without(); none {
		return o
	}
	n := 1 << 20
	if b.cfg.Brief {
		n = 1 << 16
	}
	var target string
	for _, d := range b.devices {
		var err error
		if target, err = compute(d, n); err != nil {
			return failed(sickRemedy, "%v", err)
		}
	}
	return ok("PTX for %s: %d results are right", target, n)
}

// compute runs saxpy over n numbers that are exact, and compares.
func compute(d cuda.Device, n int) (target string, err error) {
	c, err := d.Open()
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	m, target, err := c.LoadKernels()
	if err != nil {
		return target, err
	}
	x, y := make([]float32, n), make([]float32, n)
	for i := range x {
		x[i], y[i] = float32(i%4096), float32(i%1021)
	}
	px, err := c.Alloc(int64(n) * 4)
	if err != nil {
		return target, err
	}
	py, err := c.Alloc(int64(n) * 4)
	if err != nil {
		return target, err
	}
	const a = 3
	if err := errors.Join(cuda.ToDevice(c, px, x), cuda.ToDevice(c, py, y), m.Saxpy(px, py, a, n), cuda.FromDevice(c, y, py), m.Close()); err != nil {
		return target, err
	}
	for i, got := range y {
		if want := a*float32(i%4096) + float32(i%1021); got != want {
			return target, fmt.Errorf("result %d of %d is %g, and not %g", i, n, got, want)
		}
	}
	return target, nil
}

// floor is the bandwidth below which something is broken: no working link or memory is so slow, a shared one included.
const floor = 250e6 // bytes/s

// A copy below the floor is tried again for slowTime, in pieces: they fit between two turns of the processors of a busy
// node.
const (
	slowTime = time.Second
	piece    = 1 << 20
)

// copies checks that what goes to the device, within it and back stays the same, and how fast. Where others share the
// GPU, slowness is no fault.
func (b *bench) copies() outcome {
	if o, none := b.without(); none {
		return o
	}
	n := 32 << 20
	if b.cfg.Brief {
		n = 8 << 20
	}
	own := b.cfg.Expect == nil || b.cfg.Expect.Tier == gpu.Hardware
	var said outcome
	for _, d := range b.devices {
		speed, err := transfer(d, n)
		if err != nil {
			return failed(sickRemedy, "%v", err)
		}
		said = ok("to the device %.1f, back %.1f, within %.1f GB/s", speed[0]/1e9, speed[2]/1e9, speed[1]/1e9)
		if own && slices.Min(speed[:]) < floor {
			return failed(
				"check the GPU's link (lspci -vv: LnkSta) and the node's load", "%s, below %.2f", said.detail,
				floor/1e9,
			)
		}
	}
	return said
}

// transfer copies n bytes to the device, within it and back, each three times, and returns the best speeds. A slow one
// is tried for longer.
func transfer(d cuda.Device, n int) (speed [3]float64, err error) {
	c, err := d.Open()
	if err != nil {
		return speed, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	there, err := c.Alloc(int64(n))
	if err != nil {
		return speed, err
	}
	other, err := c.Alloc(int64(n))
	if err != nil {
		return speed, err
	}
	data, back := make([]byte, n), make([]byte, n)
	for i := 0; i+8 <= n; i += 8 { // no two words are the same
		binary.LittleEndian.PutUint64(data[i:], uint64(i)*0x9e3779b97f4a7c15)
	}
	for i, step := range []func(n int) error{
		func(n int) error { return cuda.ToDevice(c, there, data[:n]) },
		func(n int) error { return c.Copy(other, there, int64(n)) },
		func(n int) error { return cuda.FromDevice(c, back[:n], other) },
	} {
		begun := time.Now()
		for try := 0; try < 3 || speed[i] < floor && time.Since(begun) < slowTime; try++ {
			size := n
			if try >= 3 {
				size = piece
			}
			start := time.Now()
			if err := step(size); err != nil {
				return speed, err
			}
			speed[i] = max(speed[i], float64(size)/time.Since(start).Seconds())
		}
	}
	if bytes.Equal(back, data) {
		return speed, nil
	}
	for i := 0; ; i++ {
		if back[i] != data[i] {
			return speed, fmt.Errorf("byte %d of %d came back as %#x, and not %#x", i, n, back[i], data[i])
		}
	}
}
