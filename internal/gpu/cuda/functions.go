package cuda

import (
	"unsafe"

	"slipway/internal/gpu/library"
)

// functions are the driver's, by their types in C: CUresult and CUdevice are int, CUcontext, CUmodule and CUfunction
// pointers, CUdeviceptr a 64-bit number, size_t 64 bits wide.
type functions struct {
	init               func(flags uint32) int32
	getErrorName       func(code int32, name **byte) int32
	driverGetVersion   func(v *int32) int32
	deviceGetCount     func(n *int32) int32
	deviceGet          func(dev *int32, i int32) int32
	deviceGetName      func(name *byte, size int32, dev int32) int32
	deviceGetUUID      func(uuid *byte, dev int32) int32
	deviceTotalMem     func(bytes *uint64, dev int32) int32
	deviceGetAttribute func(value *int32, attribute int32, dev int32) int32
	ctxCreate          func(ctx *uintptr, flags uint32, dev int32) int32
	ctxDestroy         func(ctx uintptr) int32
	ctxSynchronize     func() int32
	memGetInfo         func(free, total *uint64) int32
	memAlloc           func(p *uint64, bytes uint64) int32
	memFree            func(p uint64) int32
	memcpyHtoD         func(to uint64, from unsafe.Pointer, bytes uint64) int32
	memcpyDtoH         func(to unsafe.Pointer, from uint64, bytes uint64) int32
	memcpyDtoD         func(to, from uint64, bytes uint64) int32
	moduleLoadData     func(m *uintptr, image unsafe.Pointer) int32
	moduleUnload       func(m uintptr) int32
	moduleGetFunction  func(f *uintptr, m uintptr, name string) int32
	launchKernel       func(f uintptr, gridX, gridY, gridZ, blockX, blockY, blockZ, shared uint32, stream uintptr, params unsafe.Pointer, extra uintptr) int32
}

// bind finds all of them but the one for UUIDs. The names without _v2 are of the 32-bit interface of 2010.
func (f *functions) bind(l *library.Library) error {
	for _, b := range []struct {
		name string
		f    any
	}{
		{"cuInit", &f.init},
		{"cuGetErrorName", &f.getErrorName},
		{"cuDriverGetVersion", &f.driverGetVersion},
		{"cuDeviceGetCount", &f.deviceGetCount},
		{"cuDeviceGet", &f.deviceGet},
		{"cuDeviceGetName", &f.deviceGetName},
		{"cuDeviceTotalMem_v2", &f.deviceTotalMem},
		{"cuDeviceGetAttribute", &f.deviceGetAttribute},
		{"cuCtxCreate_v2", &f.ctxCreate},
		{"cuCtxDestroy_v2", &f.ctxDestroy},
		{"cuCtxSynchronize", &f.ctxSynchronize},
		{"cuMemGetInfo_v2", &f.memGetInfo},
		{"cuMemAlloc_v2", &f.memAlloc},
		{"cuMemFree_v2", &f.memFree},
		{"cuMemcpyHtoD_v2", &f.memcpyHtoD},
		{"cuMemcpyDtoH_v2", &f.memcpyDtoH},
		{"cuMemcpyDtoD_v2", &f.memcpyDtoD},
		{"cuModuleLoadData", &f.moduleLoadData},
		{"cuModuleUnload", &f.moduleUnload},
		{"cuModuleGetFunction", &f.moduleGetFunction},
		{"cuLaunchKernel", &f.launchKernel},
	} {
		if err := l.Bind(b.name, b.f); err != nil {
			return err
		}
	}
	return nil
}
