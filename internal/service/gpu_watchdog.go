package service

import (
	"context"

	"golang.org/x/sync/errgroup"

	"slipway/internal/gpu/watchdog"
	"slipway/spawner"
)

// warning is what a workload's user is to be told.
type warning struct{ workload, text string }

// mostWarnings may wait to be told, and as many are being told; more are dropped.
const mostWarnings = 64

// runWatchdog watches the memory of shared GPUs until ctx ends.
func (s *service) runWatchdog(ctx context.Context, each func(func() error)) {
	warnings := make(chan warning, mostWarnings)
	dog := watchdog.New(watchdog.Config{
		Readings: s.gpuReadings, Held: s.engine.Leases, Whose: s.holderOf, Logger: s.log,
		Warn: func(workload, text string) {
			select {
			case warnings <- warning{workload, text}:
			default:
			}
		},
		End: func(ctx context.Context, workload, why string) error {
			return s.engine.Evict(ctx, spawner.ID(workload), why, "ask for more memory, or for a slice of another kind: `slipway gpus` lists what there is")
		},
	})
	each(func() error { return dog.Run(ctx) })
	each(func() error {
		deliver(ctx, warnings, func(w warning) { s.engine.Tell(ctx, spawner.ID(w.workload), w.text) })
		return nil
	})
}

// deliver tells warnings until ctx ends, several at once: the agent of a workload is its user's, and while it takes its
// time over one warning, others must get theirs before they are ended.
func deliver(ctx context.Context, warnings <-chan warning, tell func(warning)) {
	var all errgroup.Group
	defer func() { _ = all.Wait() }()
	all.SetLimit(mostWarnings)
	for {
		select {
		case <-ctx.Done():
			return
		case w := <-warnings:
			all.Go(func() error { tell(w); return nil })
		}
	}
}

// gpuReadings returns the last reading of each GPU.
func (s *service) gpuReadings() []watchdog.Reading {
	var all []watchdog.Reading
	for _, g := range s.gpus.Inventory().GPUs {
		if r, taken, ok := s.gpus.Reading(g.Device.UUID); ok {
			all = append(all, watchdog.Reading{GPU: g.Device.UUID, Total: g.Device.Memory, Taken: taken, Reading: r})
		}
	}
	return all
}
