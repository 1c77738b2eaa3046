package cli

import (
	"context"

	"slipway/internal/gpu/watchdog"
	"slipway/spawner"
)

// warning is what a workload's user is to be told.
type warning struct{ workload, text string }

// mostWarnings may wait to be told; more are dropped, and come again with the next look.
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
		for {
			select {
			case <-ctx.Done():
				return nil
			case w := <-warnings:
				s.engine.Tell(ctx, spawner.ID(w.workload), w.text)
			}
		}
	})
}

// gpuReadings gives the last reading of each GPU.
func (s *service) gpuReadings() []watchdog.Reading {
	var all []watchdog.Reading
	for _, g := range s.gpus.Inventory().GPUs {
		if r, taken, ok := s.gpus.Reading(g.Device.UUID); ok {
			all = append(all, watchdog.Reading{GPU: g.Device.UUID, Total: g.Device.Memory, Taken: taken, Reading: r})
		}
	}
	return all
}
