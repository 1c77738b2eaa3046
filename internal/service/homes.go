package service

import (
	"context"

	"slipway/internal/homes/homemounts"
	"slipway/internal/programs/install"
	"slipway/spawner"
	"slipway/spawner/catalog"
)

func (s *service) makeHomeMounts(ctx context.Context) (err error) {
	s.lean = install.FindJobProgram(s.self, s.log)
	s.homeMounts, err = homemounts.New(ctx, homemounts.Config{
		Site: s.cfg, Program: s.lean, Store: s.store, Realms: s.realms, Principal: s.principal, Account: s.account,
		Member: s.member, Logger: s.log,
		Offers: func(hub string, user spawner.User) catalog.Catalogue { return s.workloads.Offers(hub, user) },
		Workloads: func(ctx context.Context) []spawner.Workload {
			all, _ := s.engine.List(ctx, spawner.Caller{System: true}) // it fails for no such caller
			return all
		},
		Tell: func(ctx context.Context, id spawner.ID, text string) { s.engine.Tell(ctx, id, text) },
	})
	return err
}
