package service

import (
	"context"
	"runtime"

	"slipway/images/trial"
	"slipway/internal/identity"
	"slipway/spawner"
	"slipway/spawner/local"
)

// The bounds of a trial: enough to import large libraries, little enough to be no burden on who works here.
const (
	trialMemory = 6 << 30
	trialPids   = 1024
)

// try runs a command in an environment as batch jobs run: in Apptainer, with its owner's rights, but with nothing
// beside the image.
func (s *service) try(ctx context.Context, t trial.Command) ([]byte, error) {
	a, err := s.accounts.Account(ctx, identity.RealmOf(t.Owner), identity.UserOf(t.Owner))
	if err != nil {
		return nil, err
	}
	return s.local.Try(ctx, local.Trial{
		Image: t.Image, Account: engineAccount(a), Argv: t.Argv, Limit: t.Limit,
		Resources: spawner.Resources{CPUs: float64(min(2, runtime.NumCPU())), Memory: trialMemory, Pids: trialPids},
	})
}
