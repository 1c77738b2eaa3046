package launch

import (
	"context"
	"errors"
	"fmt"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/internal/gpu"
	"slipway/spawner"
)

// GPUs makes slices of GPUs real.
type GPUs interface {
	// Realise makes what s stands for, for a workload that holds it, and says what its container needs. Repeating it is
	// harmless. After an error that is gpu.ErrBadPlace the place is quarantined, and another is to be looked for.
	Realise(ctx context.Context, holder string, s gpu.Slice) (gpu.Binding, error)
	// Confine has the driver hold the container of this cgroup to what s may use of the GPU's memory.
	Confine(ctx context.Context, s gpu.Slice, cgroup string) error
}

// ErrNotYet is what a start is repeated after.
var ErrNotYet = errors.New("the GPUs cannot be asked now")

// realise makes a workload's slice real and says what its container needs.
func (m *Maker) realise(ctx context.Context, l *spawner.Launch) (*gpu.Binding, error) {
	if m.GPUs == nil {
		return nil, errs.New(errs.Missing, "it holds %s, and the service knows of no GPU any more", l.Slice).
			With("the administrator puts gpu back into the configuration")
	}
	l.Report("Preparing "+l.Slice.String(), 0)
	b, err := m.GPUs.Realise(ctx, l.SliceHolder(), *l.Slice)
	switch {
	case err == nil:
		b.Name = gpu.Vendor + "=" + string(l.ID)
		return &b, nil
	case errors.Is(err, gpu.ErrBadPlace), forGood(err):
		return nil, err
	default:
		return nil, fmt.Errorf("%w: %w", ErrNotYet, err)
	}
}

// forGood reports whether an error names what only a person can mend: then waiting does not help.
func forGood(err error) bool {
	e, ok := errors.AsType[*errs.Error](err)
	return ok && (e.Kind == errs.Internal || e.Kind == errs.Missing || e.Kind == errs.Invalid) && e.Remedy != ""
}

// Confine puts the memory limit of a slice on a container that runs, before it is given its app: also when the service
// was killed since the container was started.
func (m *Maker) Confine(ctx context.Context, w spawner.Workload, backend spawner.Backend) error {
	if w.Slice == nil || w.Slice.Tier != gpu.Cgroup || m.GPUs == nil {
		return nil
	}
	groups, ok := backend.(spawner.Grouper)
	if !ok {
		return errs.New(errs.Missing, "backend %s cannot hold its workloads to a share of a GPU's memory", w.Backend)
	}
	cgroup, err := groups.Cgroup(ctx, w.ID)
	if err != nil {
		return err
	}
	return m.GPUs.Confine(ctx, *w.Slice, cgroup)
}

// helper is the program that tests a slice from inside, beside the agent.
const helper = control.BinDir + "/slipway-gpu"

// SelfTestOf returns what a workload's agent runs before the app. The test finds in its environment what it is to expect.
func (m *Maker) SelfTestOf(w spawner.Workload) *control.SelfTest {
	if w.Slice == nil || w.Slice.Simulated || m.SelfTest == 0 {
		return nil
	}
	return &control.SelfTest{Argv: []string{helper, "selftest", "--brief"}, Timeout: m.SelfTest}
}
