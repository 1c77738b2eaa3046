package service

import (
	"context"

	"slipway/spawner"
	"slipway/spawner/disklimit"
)

// watchDisks holds the sessions of this host to their limits.
func (s *service) watchDisks(ctx context.Context) error {
	return disklimit.New(disklimit.Config{
		Sessions: s.runningHere, Written: s.docker.Written, Alert: s.workloads.Alert, Stop: s.workloads.Overrun,
		Logger: s.log,
	}).Run(ctx)
}

// runningHere returns the sessions that run in containers of this host.
func (s *service) runningHere() (all []spawner.Workload) {
	_ = s.engine.Each(context.Background(), spawner.Caller{System: true}, "", func(w *spawner.Workload) {
		if w.Kind.Session() && w.Phase == spawner.Running && w.Backend == s.docker.Name() {
			all = append(all, *w)
		}
	})
	return all
}
