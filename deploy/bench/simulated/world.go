package main

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/identity"
	"slipway/internal/secret"
	"slipway/internal/store"
	"slipway/spawner"
	"slipway/spawner/catalog"
	"slipway/spawner/engine"
	"slipway/spawner/spawnertest"
	"slipway/spawner/workloads"
)

// newEngine makes the real engine. Its capacity is large, not unlimited, so that the ledger has its work.
func newEngine(
	ctx context.Context, s settings, records *store.Store, accounts *identity.Accounts, log *slog.Logger,
) (*engine.Manager, workloads.Workloads, error) {
	crew := spawnertest.NewCrew()
	if s.boot > 0 {
		crew.Boot(func(h *spawnertest.Hand) { time.AfterFunc(s.boot, h.Ready) })
	}
	backend := spawnertest.New(spawnertest.Config{
		Name: "docker", Started: crew.ComeUp, Ended: crew.GoDown, StartTime: s.start, StopTime: s.stop,
	})
	account := func(ctx context.Context, _ string, user spawner.User) (spawner.Account, error) {
		a, err := accounts.Account(ctx, identity.Site, string(user))
		return spawner.Account{UID: a.UID, GID: a.GID, Login: a.Login, HomeDir: a.HomeDir, Home: a.Home}, err
	}
	m, err := engine.New(ctx, engine.Config{
		Store: records, Backends: []spawner.Backend{backend}, Agents: thin{crew}, Sealer: secret.NewBox(),
		Sessions: "docker",
		Dir:      filepath.Join(s.dir, "workloads"),
		Capacity: map[string]spawner.Capacity{"docker": {CPUs: 1 << 20, Memory: 1 << 50}}, Logger: log,
		Account: account,
	})
	if err != nil {
		return nil, workloads.Workloads{}, err
	}
	crew.Dial(func(id spawner.ID, up bool) { m.LinkChanged(ctx, id, up) })
	all, err := workloads.New(ctx, m, workloads.Config{Account: account, Logger: log})
	return m, all, err
}

func catalogue() catalog.Catalogue {
	return catalog.Catalogue{
		Images: []catalog.ImageChoice{{Name: "none", Title: "Nothing: this service is simulated", Ref: "simulated"}},
		Profiles: []catalog.Profile{{
			Name: "simulated", Title: "Simulated", Description: "Nothing runs in it", Kind: spawner.Lab,
			Images: []string{"none"},
			CPUs:   1, Memory: 1 << 30, Default: true,
		}},
	}
}

// thin is a crew whose agents forget their app's environment: in the world that is played, it lies in another process.
type thin struct{ *spawnertest.Crew }

// Agent returns an agent.
func (t thin) Agent(id spawner.ID) engine.Agent { return thinAgent{t.Crew.Agent(id)} }

type thinAgent struct{ engine.Agent }

// Launch launches an app.
func (a thinAgent) Launch(ctx context.Context, app control.App) error {
	app.Env, app.Argv = nil, nil
	return a.Agent.Launch(ctx, app)
}
