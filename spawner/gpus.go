package spawner

import (
	"context"

	"slipway/internal/gpu"
)

// GPUs shares out the GPUs of this host. internal/gpu/fleet has them. The engine's records say who holds what; GPUs knows what
// there is.
type GPUs interface {
	// Place finds a place for r beside what is held; lacks says in words why there is none now. It is quick and does no I/O.
	Place(r gpu.Request, held []gpu.Slice) (s gpu.Slice, lacks string)
	// Never says in words why r can never be had of these GPUs, whoever holds what; empty when it can.
	Never(r gpu.Request) string
	// Count says how many of r could be had now, and on empty GPUs. It is quick and does no I/O.
	Count(r gpu.Request, held []gpu.Slice) (free, most int)
	// Realise makes what s stands for, for a workload that holds it, and says what its container needs. Repeating it is harmless.
	// After an error that is gpu.ErrBadPlace the place is quarantined, and another is to be looked for.
	Realise(ctx context.Context, holder string, s gpu.Slice) (gpu.Binding, error)
	// Release says that holder has been seen gone from s.
	Release(holder string, s gpu.Slice)
	// Condemn quarantines a place at which a workload's self-test has failed.
	Condemn(s gpu.Slice, why string)
}
