package gpu

import (
	"context"
	"errors"
)

// Driver is what there is to know and to do about the GPUs of one host. Several implementations pass the suite of
// gputest: the real one (in the helper, over NVML), its client, and the simulated one. Its methods may be called at
// once from several goroutines; changes of one GPU come one at a time.
//
// An error that is one of the Err values below says what it is; any other means that the driver could not be asked.
type Driver interface {
	System(ctx context.Context) (System, error)
	// Devices returns all GPUs. One that is lost is missing from it, or Health says so.
	Devices(ctx context.Context) ([]Device, error)
	// Instances returns what a GPU is cut into now, remnants included; none when MIG is off.
	Instances(ctx context.Context, uuid string) ([]Instance, error)
	// CreateInstance makes an instance of a profile at a placement, with one compute instance over all of it.
	CreateInstance(ctx context.Context, uuid string, profile string, at Placement) (Instance, error)
	// DestroyInstance destroys a GPU instance with its compute instances. One that is gone is success.
	DestroyInstance(ctx context.Context, uuid string, gi int) error
	// SetMIG switches MIG mode. It may succeed and be effective only after a reset: then the error is ErrPending.
	SetMIG(ctx context.Context, uuid string, on bool) error
	// SetExclusive allows one process at a time to use the GPU, as an MPS daemon wants it, or any number.
	SetExclusive(ctx context.Context, uuid string, on bool) error
	Health(ctx context.Context, uuid string) (Health, error)
	Read(ctx context.Context, uuid string) (Reading, error)
	// LimitMemory has the kernel's driver hold all processes of a cgroup (its path below /sys/fs/cgroup) to bytes on
	// the GPU; 0 lifts it. ErrNotSupported before R615, and on a GPU that is cut.
	LimitMemory(ctx context.Context, uuid, cgroup string, bytes int64) error
	Close() error
}

// What a driver refuses. They are compared with errors.Is; the client of the helper keeps them.
var (
	ErrNoDriver     = errors.New("no NVIDIA driver on this host")
	ErrNotSupported = errors.New("the GPU or its driver cannot do this")
	ErrInUse        = errors.New("in use by another client")
	ErrNoRoom       = errors.New("insufficient resources at this placement")
	ErrLost         = errors.New("the GPU is lost")
	ErrNotFound     = errors.New("no such GPU or instance")
	ErrPending      = errors.New("takes effect only after a reset of the GPU")
	ErrDenied       = errors.New("not permitted")
)
