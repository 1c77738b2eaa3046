package service

import (
	"slipway/hubapi/server/api"
	"slipway/internal/gpu/poolview"
)

// poolGPUs returns what the API shows of the pool; nil: there is none.
func (s *service) poolGPUs() api.Pool {
	if s.pool == nil {
		return nil
	}
	return poolview.New(s.pool, s.inventory())
}
