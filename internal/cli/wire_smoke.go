//go:build linux

package cli

import (
	"context"
	"runtime"
	"slices"

	"slipway/hubapi"
	"slipway/images"
	"slipway/images/inventory"
	"slipway/internal/cli/render"
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
func (s *service) try(ctx context.Context, t images.Trial) ([]byte, error) {
	a, err := s.accounts.Account(ctx, identity.RealmOf(t.Owner), identity.UserOf(t.Owner))
	if err != nil {
		return nil, err
	}
	return s.local.Try(ctx, local.Trial{
		Image: t.Image, Account: engineAccount(a), Argv: t.Argv, Limit: t.Limit,
		Resources: spawner.Resources{CPUs: float64(min(2, runtime.NumCPU())), Memory: trialMemory, Pids: trialPids},
	})
}

// wireImports says what is known of an environment's imports, nil when no session said what it had imported.
func wireImports(u images.Use) *hubapi.Imports {
	if len(u.Imported) == 0 {
		return nil
	}
	modules, broken := u.Broken()
	out := &hubapi.Imports{State: hubapi.ImportsTried, Modules: modules, Broken: broken, Lines: render.Bounded(u.Lines(), len(u.Lines()))}
	switch {
	case u.Waiting:
		out.State = hubapi.ImportsWaiting
	case !slices.ContainsFunc(u.Attempts, func(a images.Attempt) bool { return a.Why == "" }):
		out.State = hubapi.ImportsUntried
	}
	if !u.Tried.IsZero() {
		out.Tried = &u.Tried
	}
	return out
}

// wireRepositories joins the repositories that the tree needs with those that the session used.
func wireRepositories(i inventory.Inventory, u images.Use) []hubapi.Repository {
	out := []hubapi.Repository{}
	for _, r := range i.CVMFS {
		out = append(out, hubapi.Repository{Name: r.Name, Found: render.Bounded(r.First, r.Files)})
	}
	for _, name := range u.CVMFS {
		at := slices.IndexFunc(out, func(r hubapi.Repository) bool { return r.Name == name })
		if at < 0 {
			out, at = append(out, hubapi.Repository{Name: name}), len(out)
		}
		out[at].Found = append(out[at].Found, "the session used it")
	}
	return out
}
