package cuda

import (
	_ "embed"
	"errors"
	"fmt"
	"unsafe"
)

// kernels are the two kernels, without the lines that say for which devices.
//
//go:embed kernels.ptx
var kernels string

// threads is how many a block has.
const threads = 256

// Targets are the instruction sets for which the kernels are offered to the driver, in this order: the first goes from
// Maxwell on, and the second is for drivers that compile it no more.
func Targets() []string { return []string{"sm_50", "sm_75"} }

// PTX returns the kernels for a target.
func PTX(target string) string {
	version := "6.0"
	if target == "sm_75" {
		version = "6.3"
	}
	return fmt.Sprintf(".version %s\n.target %s\n.address_size 64\n\n%s", version, target, kernels)
}

// LoadKernels has the driver compile the kernels for the first target that it takes, and says which.
func (c *Context) LoadKernels() (*Module, string, error) {
	var all error
	for _, target := range Targets() {
		m, err := c.Load(PTX(target))
		if err == nil {
			return m, target, nil
		}
		all = errors.Join(all, fmt.Errorf("PTX for %s: %w", target, err))
	}
	return nil, "", all
}

// Saxpy computes y = a*x + y over n numbers at x and y on the device, and waits for it.
func (m *Module) Saxpy(x, y uint64, a float32, n int) error {
	count := uint32(n)
	err := m.Launch(
		"saxpy", (n+threads-1)/threads, threads, unsafe.Pointer(&x), unsafe.Pointer(&y), unsafe.Pointer(&a),
		unsafe.Pointer(&count),
	)
	if err != nil {
		return err
	}
	return m.context.Wait()
}

// spin keeps the device busy for n rounds in each of blocks*threads threads, with 4 bytes for each of them at out, and
// waits for it.
func (m *Module) spin(out uint64, blocks int, n uint32) error {
	if err := m.Launch("spin", blocks, threads, unsafe.Pointer(&out), unsafe.Pointer(&n)); err != nil {
		return err
	}
	return m.context.Wait()
}
