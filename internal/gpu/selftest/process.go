package selftest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"slipway/internal/gpu/cuda"
)

// What another process of the test is to do.
const (
	partCompute = "compute" // have a context of its own and run the kernel
	partList    = "list"    // say which devices it sees
	partTime    = 20 * time.Second
)

// partReport is what it says, as JSON.
type partReport struct {
	UUIDs []cuda.UUID `json:"uuids"`
	Error string      `json:"error,omitempty"`
}

// playPart is the other process.
func playPart(part, dir string) partReport {
	d, err := cuda.Open(dir)
	if part == partList && cuda.Is(err, cuda.CodeNoDevice) {
		return partReport{}
	}
	if err != nil {
		return partReport{Error: err.Error()}
	}
	devices, err := d.Devices()
	if err != nil {
		return partReport{Error: err.Error()}
	}
	var r partReport
	for _, dev := range devices {
		r.UUIDs = append(r.UUIDs, dev.UUID)
		if part == partCompute {
			if _, err := compute(dev, 1<<10); err != nil {
				r.Error = err.Error()
			}
		}
	}
	return r
}

// alone is why there is no other process: an image without /proc is no fault of the slice.
const alone = "the program does not know how to start itself: there is no /proc here"

// ask has another process do its part, with variables of the environment left out.
func (b *bench) ask(ctx context.Context, part string, without ...string) (partReport, error) {
	var r partReport
	ctx, cancel := context.WithTimeout(ctx, partTime)
	defer cancel()
	argv := append(append([]string{}, b.cfg.Self[1:]...), "--part", part, "--library-dir", b.cfg.LibraryDir)
	c := exec.CommandContext(ctx, b.cfg.Self[0], argv...)
	c.Env = []string{}
	for _, kv := range b.cfg.Environ {
		if name, _, _ := strings.Cut(kv, "="); !contains(without, name) {
			c.Env = append(c.Env, kv)
		}
	}
	var said, errors bytes.Buffer
	c.Stdout, c.Stderr, c.WaitDelay = &said, &errors, time.Second
	if err := c.Run(); err != nil {
		return r, fmt.Errorf("another process of the test: %w: %s", err, lastLine(errors.String()))
	}
	if err := json.Unmarshal(said.Bytes(), &r); err != nil {
		return r, fmt.Errorf("another process of the test: %w", err)
	}
	if r.Error != "" {
		return r, fmt.Errorf("another process of the test: %s", r.Error)
	}
	return r, nil
}

func contains(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

// secondProcess checks that a second process can use the device while this one does.
func (b *bench) secondProcess(ctx context.Context) (o outcome) {
	if o, none := b.without(); none {
		return o
	}
	if len(b.cfg.Self) == 0 {
		return skipped(alone)
	}
	c, err := b.devices[0].Open()
	if err != nil {
		return failed("", "%v", err)
	}
	defer func() {
		if err := c.Close(); err != nil && o.result != Failed {
			o = failed("", "%v", err)
		}
	}()
	if _, err := b.ask(ctx, partCompute); err != nil {
		return failed(
			"the GPU lets in one process at a time: set its compute mode to DEFAULT, or start its MPS daemon", "%v",
			err,
		)
	}
	return ok("two at once")
}

// noOther checks that nothing but the slice can be reached: by a process that ignores which devices it is told to use,
// and through NVML.
func (b *bench) noOther(ctx context.Context) outcome {
	e := b.cfg.Expect
	if e == nil {
		return skipped("nothing is leased")
	}
	if o, none := b.without(); none {
		return o
	}
	if len(b.cfg.Self) == 0 {
		return skipped(alone)
	}
	r, err := b.ask(ctx, partList, "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
	if err != nil {
		return failed("", "%v", err)
	}
	for _, u := range r.UUIDs {
		if (b.cuda.Instances || b.instances() == 0) && !leased(u, e.UUIDs) {
			return failed(
				bindRemedy, "without CUDA_VISIBLE_DEVICES a process reaches %s, which is not of this slice", u,
			)
		}
	}
	if len(r.UUIDs) > len(e.UUIDs) {
		return failed(
			bindRemedy, "without CUDA_VISIBLE_DEVICES a process reaches %d devices where %d are leased", len(r.UUIDs),
			len(e.UUIDs),
		)
	}
	return b.noOtherByNVML()
}

func (b *bench) noOtherByNVML() outcome {
	if b.nvml == nil {
		return ok("by CUDA; NVML did not load")
	}
	e := b.cfg.Expect
	devices, err := b.nvml.handles()
	if err != nil {
		return failed("", "NVML: %v", err)
	}
	var others []string
	whole := 0
	for _, d := range devices {
		uuid := b.nvml.uuidOf(d)
		migs := b.nvml.migs(d)
		for _, m := range migs {
			if u := b.nvml.uuidOf(m); !contains(e.UUIDs, u) {
				others = append(others, u)
			}
		}
		switch {
		case contains(e.UUIDs, uuid):
			whole++
		case b.instances() == 0: // the GPU of an instance is seen with it
			others = append(others, uuid)
		}
	}
	if len(others) > 0 {
		return failed(bindRemedy, "NVML shows %s, which is not of this slice", strings.Join(others, " "))
	}
	if len(devices)-whole > b.instances() {
		return failed(bindRemedy, "NVML shows %d GPUs where %d devices are leased", len(devices), len(e.UUIDs))
	}
	return ok("by CUDA and NVML")
}
