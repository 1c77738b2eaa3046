package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/internal/gpu"
	"slipway/spawner"
	"slipway/spawner/sched"
)

// GPUs shares out the GPUs of this host. internal/gpu/fleet has them. The engine's records say who holds what; GPUs
// knows what there is.
type GPUs interface {
	sched.GPUs
	// Realise makes what s stands for, for a workload that holds it, and says what its container needs. Repeating it is
	// harmless. After an error that is gpu.ErrBadPlace the place is quarantined, and another is to be looked for.
	Realise(ctx context.Context, holder string, s gpu.Slice) (gpu.Binding, error)
	// Confine has the driver hold the container of this cgroup to what s may use of the GPU's memory.
	Confine(ctx context.Context, s gpu.Slice, cgroup string) error
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

// errNotYet is what a start is repeated after.
var errNotYet = errors.New("the GPUs cannot be asked now")

// realise makes a workload's slice real and says what its container needs.
func (m *Manager) realise(ctx context.Context, e Entry) (*gpu.Binding, error) {
	if m.cfg.GPUs == nil {
		return nil, errs.New(errs.Missing, "it holds %s, and the service knows of no GPU any more", e.Slice).
			With("the administrator puts gpu back into the configuration")
	}
	m.note(e.ID, spawner.Event{Percent: 15, Message: "Preparing " + e.Slice.String()})
	b, err := m.cfg.GPUs.Realise(ctx, e.SliceHolder(), *e.Slice)
	switch {
	case err == nil:
		b.Name = gpu.Vendor + "=" + string(e.ID)
		return &b, nil
	case errors.Is(err, gpu.ErrBadPlace), forGood(err):
		return nil, err
	default:
		return nil, fmt.Errorf("%w: %w", errNotYet, err)
	}
}

// forGood reports whether an error names what only a person can mend: then waiting does not help.
func forGood(err error) bool {
	e, ok := errors.AsType[*errs.Error](err)
	return ok && (e.Kind == errs.Internal || e.Kind == errs.Missing || e.Kind == errs.Invalid) && e.Remedy != ""
}

// confine puts the memory limit of a slice on a container that runs, before it is given its app: also when the service
// was killed since the container was started.
func (m *Manager) confine(ctx context.Context, e Entry) error {
	if e.Slice == nil || e.Slice.Tier != gpu.Cgroup || m.cfg.GPUs == nil {
		return nil
	}
	backend, ok := m.backend(e.Backend).(spawner.Grouper)
	if !ok {
		return errs.New(errs.Missing, "backend %s cannot hold its workloads to a share of a GPU's memory", e.Backend)
	}
	cgroup, err := backend.Cgroup(ctx, e.ID)
	if err != nil {
		return err
	}
	return m.cfg.GPUs.Confine(ctx, *e.Slice, cgroup)
}

// partPatience is for how long it is tried to have processes leave a GPU in an orderly way. A driver that has died must
// not keep what is to end from ending.
const partPatience = 30 * time.Second

// part has a workload's processes leave the GPU before they are ended.
func (m *Manager) part(ctx context.Context, e Entry) error {
	if e.Slice == nil || m.cfg.GPUs == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, partPatience)
	defer cancel()
	err := m.cfg.GPUs.Part(ctx, e.SliceHolder(), *e.Slice)
	if err != nil && time.Since(m.phaseBegan(e)) >= partPatience {
		m.log.Warn("a workload is killed on its GPU, which may disturb others there", "id", e.ID, "slice", e.Slice, "err", err)
		return nil
	}
	return err
}

// helper is the program that tests a slice from inside, beside the agent.
const helper = control.BinDir + "/slipway-gpu"

// selfTest is what a workload's agent runs before the app. The test finds in its environment what it is to expect.
func (m *Manager) selfTest(e Entry) *control.SelfTest {
	if e.Slice == nil || e.Slice.Simulated || m.cfg.SelfTest == 0 {
		return nil
	}
	return &control.SelfTest{Argv: []string{helper, "selftest", "--brief"}, Timeout: m.cfg.SelfTest}
}
