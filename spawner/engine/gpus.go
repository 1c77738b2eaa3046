package engine

import (
	"context"

	"slipway/internal/gpu"
	"slipway/spawner/launch"
	"slipway/spawner/sched"
)

// GPUs shares out the GPUs of this host. internal/gpu/fleet has them. The engine's records say who holds what; GPUs
// knows what there is.
type GPUs interface {
	sched.GPUs
	launch.GPUs
	// Part has a workload's processes leave the GPU in an orderly way, where its mode needs that before they are
	// killed.
	Part(ctx context.Context, holder string, s gpu.Slice) error
	// Release says that holder has been seen gone from s. It is called under the engine's lock, so that nobody can have
	// s before: it is quick and asks the engine nothing. A service that is killed does not say it: who holds what then
	// is Manager.Leases' word.
	Release(holder string, s gpu.Slice)
	// Condemn quarantines a place at which a workload's self-test has failed.
	Condemn(s gpu.Slice, why string)
}
