package cuda

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"
)

// Context is what a process has on a device. The driver keeps the current one by thread: a Context is used by the
// goroutine that opened it alone, which stays on its thread until Close.
type Context struct {
	driver *Driver
	handle uintptr
	held   map[uint64]bool
}

// Open makes a context on the device and locks the goroutine to its thread.
func (d Device) Open() (*Context, error) {
	runtime.LockOSThread()
	c := &Context{driver: d.driver, held: map[uint64]bool{}}
	if err := d.driver.check("cuCtxCreate_v2", d.driver.fn.ctxCreate(&c.handle, 0, d.number)); err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	return c, nil
}

// Close gives back all that the context holds.
func (c *Context) Close() error {
	defer runtime.UnlockOSThread()
	var all error
	for p := range c.held {
		all = errors.Join(all, c.Free(p))
	}
	return errors.Join(all, c.driver.check("cuCtxDestroy_v2", c.driver.fn.ctxDestroy(c.handle)))
}

// Memory returns the device's free memory and its size, as programs are told them.
func (c *Context) Memory() (free, total int64, err error) {
	var f, t uint64
	err = c.driver.check("cuMemGetInfo_v2", c.driver.fn.memGetInfo(&f, &t))
	return int64(f), int64(t), err
}

// Alloc takes memory of the device.
func (c *Context) Alloc(bytes int64) (uint64, error) {
	var p uint64
	if err := c.driver.check("cuMemAlloc_v2", c.driver.fn.memAlloc(&p, uint64(bytes))); err != nil {
		return 0, err
	}
	c.held[p] = true
	return p, nil
}

// Free gives memory back.
func (c *Context) Free(p uint64) error {
	delete(c.held, p)
	return c.driver.check("cuMemFree_v2", c.driver.fn.memFree(p))
}

// Number is what the kernels compute with.
type Number interface{ ~float32 | ~uint32 | ~byte }

// ToDevice copies v to the device.
func ToDevice[T Number](c *Context, to uint64, v []T) error {
	return c.driver.check("cuMemcpyHtoD_v2", c.driver.fn.memcpyHtoD(to, unsafe.Pointer(unsafe.SliceData(v)), size(v)))
}

// FromDevice fills v from the device. It waits for kernels that are under way.
func FromDevice[T Number](c *Context, v []T, from uint64) error {
	return c.driver.check("cuMemcpyDtoH_v2", c.driver.fn.memcpyDtoH(unsafe.Pointer(unsafe.SliceData(v)), from, size(v)))
}

func size[T Number](v []T) uint64 {
	var one T
	return uint64(len(v)) * uint64(unsafe.Sizeof(one))
}

// Copy copies within the device and waits for it.
func (c *Context) Copy(to, from uint64, bytes int64) error {
	if err := c.driver.check("cuMemcpyDtoD_v2", c.driver.fn.memcpyDtoD(to, from, uint64(bytes))); err != nil {
		return err
	}
	return c.Wait()
}

// Wait waits for all that was asked of the device.
func (c *Context) Wait() error {
	return c.driver.check("cuCtxSynchronize", c.driver.fn.ctxSynchronize())
}

// Module is compiled code on the device.
type Module struct {
	context *Context
	handle  uintptr
}

// Load has the driver compile PTX.
func (c *Context) Load(ptx string) (*Module, error) {
	image := append([]byte(ptx), 0) // the driver takes no length
	m := &Module{context: c}
	if err := c.driver.check("cuModuleLoadData", c.driver.fn.moduleLoadData(&m.handle, unsafe.Pointer(&image[0]))); err != nil {
		return nil, err
	}
	return m, nil
}

// Close unloads the code.
func (m *Module) Close() error {
	return m.context.driver.check("cuModuleUnload", m.context.driver.fn.moduleUnload(m.handle))
}

// Launch starts a kernel on blocks of threads each; params are pointers to its parameters, in order. It does not wait.
func (m *Module) Launch(kernel string, blocks, threads int, params ...unsafe.Pointer) error {
	d := m.context.driver
	var f uintptr
	if err := d.check("cuModuleGetFunction", d.fn.moduleGetFunction(&f, m.handle, kernel)); err != nil {
		return fmt.Errorf("kernel %s: %w", kernel, err)
	}
	// params holds pointers, which the runtime must not find moved while the driver reads through them
	var pins runtime.Pinner
	defer pins.Unpin()
	for _, p := range params {
		pins.Pin(p)
	}
	pins.Pin(&params[0])
	code := d.fn.launchKernel(f, uint32(blocks), 1, 1, uint32(threads), 1, 1, 0, 0, unsafe.Pointer(&params[0]), 0)
	return d.check("cuLaunchKernel", code)
}
