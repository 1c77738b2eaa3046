// Package nvml is the gpu.Driver of real GPUs, over NVIDIA's management library.
//
// It promises to say only what the library says: profile and placement tables come from the driver, and what cannot be
// measured is -1. It initialises the library once and keeps its handles until Close. It must not run in the service:
// the library needs cgo, and a crash in it ends its process. internal/gpu/helper is the program for it,
// internal/gpu/driverrpc the way to it.
//
// Without cgo only the parts that need no library are there.
package nvml
