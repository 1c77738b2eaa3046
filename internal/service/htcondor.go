package service

import (
	"context"

	"slipway/hubapi/server/api"
	"slipway/internal/gpu/poolview"
)

// markPurpose names the key that marks a pool's jobs as the service's among those that come of its secret key.
const markPurpose = "htcondor mark"

// runHTCondor looks after what sessions and jobs in a pool need of this service.
func (s *service) runHTCondor(ctx context.Context, run func(func() error)) {
	if s.htcondor == nil {
		return
	}
	run(func() error { return s.htcondor.Watch(ctx, s.engine.Wake) })
	run(func() error { return s.pool.Run(ctx) })
}

// poolGPUs returns what the API shows of the pool; nil: there is none.
func (s *service) poolGPUs() api.Pool {
	if s.pool == nil {
		return nil
	}
	return poolview.New(s.pool, s.inventory())
}
