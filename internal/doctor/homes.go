package doctor

import (
	"context"
	"fmt"
	"os"

	"slipway/hubapi"
	"slipway/internal/config"
	"slipway/internal/errs"
	"slipway/internal/homes"
	"slipway/internal/homes/homemounts"
)

// homesChecks look at where homes and areas are: whether it answers, whether users could exchange what lies there, and
// how full it is.
func homesChecks(cfg config.Config) ([]check, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	p, err := homemounts.PlacesOf(cfg, self)
	if err != nil {
		return nil, err
	}
	home := homes.Want{Template: homes.Below(cfg.Users.Homes), Checks: homes.Checks{Guarded: true}}
	if p.Home.Personal() {
		home.Template = homes.Below(p.Home.Root())
	}
	checks := []check{{
		"homes at " + home.Template.Root(), false, func(ctx context.Context) error { return lookAtHomes(ctx, p, home) },
	}}
	for i, a := range cfg.Data.Areas {
		want := homes.Want{
			Template: homes.Below(p.Areas[i].Root()),
			Checks:   homes.Checks{Guarded: p.Areas[i].Root() != a.Path, Mounted: a.Mounted},
		}
		checks = append(checks, check{
			"area " + a.Name + " at " + want.Template.Root(), !a.Required,
			func(ctx context.Context) error { return lookAtHomes(ctx, p, want) },
		})
	}
	return checks, nil
}

// lookAtHomes looks at a directory of homes, and says how full its file system is.
func lookAtHomes(ctx context.Context, p homemounts.Places, w homes.Want) error {
	found, err := p.Homes.Find(ctx, w)
	if errs.Is(err, errs.Missing) && w.Guarded {
		return errs.New(errs.Missing, "%s", errs.Brief(err)).
			With("the service makes the directory of the homes when it starts, and others not: make or mount it")
	}
	if err != nil {
		return err
	}
	words := hubapi.QuotaWords(homemounts.QuotaOf("", "", found, nil))
	tight, _ := homes.Tightest(found.Limits)
	if !found.Propagates {
		words += "; what is mounted below it later is not seen by what runs already: it lies on no shared mount"
	}
	switch {
	case found.ReadOnly:
		return errs.New(errs.Unavailable, "its file system is mounted read-only").With("mount it for writing")
	case tight.Full():
		return errs.New(errs.NoSpace, "it is full: %s", words).
			With("make room, or let users do so by a profile with rescue: true")
	}
	return goodWord(words)
}
