package selftest

import (
	"errors"

	"slipway/internal/gpu"
	"slipway/internal/gpu/cuda"
)

const (
	smallest = 16 << 20 // of the pieces in which memory is taken; what is left below it does not matter
	overhead = 1 << 30  // what contexts and the driver may take of a limit; NVIDIA's own examples have 256 to 816 MiB
)

const limitRemedy = "the limit is not in force: check the MPS daemon of the GPU (mps), or that the driver holds the container's cgroup to it (R615)"

// allowance is how much more than the limit is still the limit: rounding to the driver's pages and units.
func allowance(limit int64) int64 { return max(64<<20, limit/64) }

// memoryLimit checks that the memory which was leased can be had, and no more.
func (b *bench) memoryLimit() outcome {
	if o, none := b.without(); none {
		return o
	}
	e := b.cfg.Expect
	switch {
	case e == nil || e.Memory <= 0:
		return ok("%s, compared with nothing", size(b.devices[0].Memory))
	case e.Tier == gpu.None || e.Tier == "":
		return skipped("nothing keeps this slice's memory apart (tier %q): a watchdog does", e.Tier)
	}
	var last outcome
	for _, d := range b.devices {
		if last = b.limitOf(d, e.Memory, e.Tier); last.result == Failed {
			return last
		}
	}
	return last
}

// limitOf looks at the size that programs are told, where the tier promises that it is the limit, and then takes memory
// until there is no more. In a brief test of a device that is all the workload's own the size says enough.
func (b *bench) limitOf(d cuda.Device, limit int64, tier gpu.Tier) (o outcome) {
	c, err := d.Open()
	if err != nil {
		return failed("another process may have the GPU to itself (compute mode EXCLUSIVE_PROCESS)", "%v", err)
	}
	defer func() {
		if err := c.Close(); err != nil && o.result != Failed {
			o = failed("", "%v", err)
		}
	}()
	free, total, err := c.Memory()
	if err != nil {
		return failed("", "%v", err)
	}
	if tier != gpu.Process && total > limit+allowance(limit) {
		return failed(limitRemedy, "programs are told of %s where %s are leased", size(total), size(limit))
	}
	if tier == gpu.Hardware && total < limit-limit/8-overhead {
		return failed(
			"the device is not the one that was leased", "it has %s where %s are leased", size(total), size(limit),
		)
	}
	if tier == gpu.Hardware && b.cfg.Brief {
		return ok("%s of %s leased", size(total), size(limit))
	}
	got, err := fill(c, limit)
	least := min(limit, free) - max(overhead, limit/10)
	switch {
	case err != nil:
		return failed("", "after %s: %v", size(got), err)
	case got > limit+allowance(limit):
		return failed(limitRemedy, "%s could be taken where %s are leased", size(got), size(limit))
	case got < least || got == 0:
		return failed(
			"another process holds memory of this slice, or the limit is too small",
			"only %s of %s leased could be taken", size(got), size(limit),
		)
	case free < limit-limit/10-overhead:
		return ok("%s of %s leased could be taken; the rest is in use", size(got), size(limit))
	default:
		return ok("%s of %s leased could be taken", size(got), size(limit))
	}
}

// fill takes memory, in smaller and smaller pieces, until there is no more or the limit is passed, and gives all of it
// back.
func fill(c *cuda.Context, limit int64) (got int64, err error) {
	var held []uint64
	for piece := max(limit/16, smallest); piece >= smallest && got <= limit+allowance(limit); {
		p, refused := c.Alloc(piece)
		switch {
		case refused == nil:
			held = append(held, p)
			got += piece
		case cuda.Is(refused, cuda.CodeOutOfMemory):
			piece /= 2
		default:
			err, piece = refused, 0
		}
	}
	for _, p := range held {
		err = errors.Join(err, c.Free(p))
	}
	return got, err
}
