package service

import (
	"context"
	"slices"
	"strings"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/gpu"
	"slipway/internal/gpu/metering"
	"slipway/internal/gpu/notify"
	"slipway/kernels/wire"
	"slipway/spawner"
)

// restTime is for what one kernel says of itself: it is its user's, and the others are not to wait for it.
const restTime = 3 * time.Second

// runNotifier tells those who compute on GPUs what becomes of these, until ctx ends.
func (s *service) runNotifier(ctx context.Context) error {
	links := agents{s.links}
	return notify.New(notify.Config{
		Inventory: s.gpus.Inventory, Held: s.heldByUsers, Use: s.gpuUse, Smaller: metering.Enough,
		Hints: s.wantsHints, Silence: wire.HintsVariable + "=off, set where Jupyter is started, ends such hints",
		Rests: func(ctx context.Context, holder string) bool {
			ctx, cancel := context.WithTimeout(ctx, restTime)
			defer cancel()
			k, err := links.client(spawner.ID(holder)).Kernel(ctx)
			return err == nil && k.State == control.KernelIdle
		},
		Tell: func(ctx context.Context, holder, text string) {
			s.log.Info("a holder of a slice is told", "id", holder, "text", text)
			s.engine.Tell(ctx, spawner.ID(holder), text)
		},
	}).Run(ctx)
}

// heldByUsers returns the leases without those of kernels that stand by: nobody is there to be told, and whoever takes
// one has it from then on.
func (s *service) heldByUsers() []gpu.Lease {
	return slices.DeleteFunc(s.engine.Leases(), func(l gpu.Lease) bool {
		w, err := s.engine.Get(context.Background(), spawner.Caller{System: true}, spawner.ID(l.Holder))
		return err != nil || w.Standby != ""
	})
}

// wantsHints reports whether a workload is a kernel whose user has not said that she wants no hints.
func (s *service) wantsHints(holder string) bool {
	w, err := s.engine.Get(context.Background(), spawner.Caller{System: true}, spawner.ID(holder))
	return err == nil && w.Kind == spawner.Kernel && w.Phase == spawner.Running &&
		hintsOn(w.Spec.Env[wire.HintsVariable])
}

func hintsOn(word string) bool {
	return !slices.Contains([]string{"0", "off", "no", "false"}, strings.ToLower(strings.TrimSpace(word)))
}
