package service

import (
	"context"
	"io"

	"slipway/internal/agent/control"
	"slipway/internal/environments"
	"slipway/spawner"
	"slipway/spawner/docker"
	"slipway/spawner/engine"
)

// openLibrary opens the environments and the keys that sign them. The keys lie outside the records, in a directory of
// their own.
func (s *service) openLibrary(ctx context.Context) error {
	keys, err := environments.OpenKeys(s.cfg, s.log)
	if err != nil {
		return err
	}
	s.environments, err = environments.Open(ctx, environments.Config{
		Site: s.cfg, Keys: keys, Account: s.account, Principal: s.principal, GroupsOf: s.groupsOf, QuotasOf: s.quotasOf, Try: s.try,
		Changes: func(id spawner.ID) func(context.Context, control.ChangesRequest) (io.ReadCloser, error) {
			return agents{s.links}.client(id).Changes
		},
		Docker: func() *docker.Backend { return s.docker }, Engine: func() *engine.Manager { return s.engine }, Logger: s.log,
	})
	return err
}
