package doctor

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"slipway/internal/config"
	"slipway/internal/cvmfs"
	"slipway/internal/errs"
)

// cvmfsChecks look at the directory with CVMFS, at each repository, and at the scripts of software stacks in them: all
// at once.
func cvmfsChecks(cfg config.Config, scratch string, log *slog.Logger) ([]check, error) {
	names := cfg.Data.CVMFS.Repositories
	var files []string
	for _, stack := range cfg.Data.Stacks {
		if file, below := strings.CutPrefix(stack.Setup, cvmfs.Inside+"/"); below {
			files = append(files, file)
		}
	}
	c, err := cvmfs.Open(cfg.Data.CVMFS, cvmfs.Locks(cfg, scratch), log, files...)
	if err != nil || c.Path() == "" {
		return nil, err
	}
	var once sync.Once
	look := func(name, remedy string) func(context.Context) error {
		return func(ctx context.Context) error {
			once.Do(func() { c.Round(ctx) })
			return verdict(c, name, remedy)
		}
	}
	checks := []check{{"CVMFS at " + c.Path(), false, func(ctx context.Context) error { return c.Check(ctx, false) }}}
	for _, name := range names {
		checks = append(checks, check{"CVMFS " + name, true, look(name, "`ls "+c.Path()+"/"+name+"` and `cvmfs_config probe "+name+"` on this host; sessions start all the same")})
	}
	for _, stack := range cfg.Data.Stacks {
		if file, below := strings.CutPrefix(stack.Setup, cvmfs.Inside+"/"); below {
			checks = append(checks, check{
				"stack " + stack.Name, true, look(file, "correct data.stacks[].setup, or look at the repository"),
			})
		}
	}
	return checks, nil
}

// verdict says what a round has found of one name.
func verdict(d cvmfs.Directory, name, remedy string) error {
	r, known := d.Of(name)
	switch {
	case !known:
		return errs.New(errs.Unavailable, "it does not answer").With(remedy)
	case r.Trouble != "":
		return errs.New(errs.Unavailable, "it %s", r.Trouble).With(remedy)
	}
	return goodWord(fmt.Sprintf("answers in %d ms", r.Took.Milliseconds()))
}
