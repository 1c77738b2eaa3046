package service

import (
	"context"

	"slipway/hubapi"
	"slipway/hubapi/server/api"
	"slipway/internal/environments"
	"slipway/spawner"
)

// credentials returns what opens a workload's environment from anywhere.
func (s *service) credentials() api.Credentials {
	registry, at := s.registry(), s.cfg.RegistryURL()
	return func(ctx context.Context, c spawner.Caller, id spawner.ID) (hubapi.EnvironmentCredential, error) {
		w, err := s.engine.Get(ctx, c, id)
		if err != nil {
			return hubapi.EnvironmentCredential{}, err
		}
		return registry.HandOut(w, at)
	}
}

// registry makes the service's own registry.
func (s *service) registry() *environments.Registry {
	return s.environments.NewRegistry(s.authority(), func(ctx context.Context, token string) (spawner.Caller, error) {
		return s.server.Web.Identify(ctx, token)
	})
}
