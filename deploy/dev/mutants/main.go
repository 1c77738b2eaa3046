// Mutants finds out whether the tests of what decides would notice a wrong decision: it changes one condition after
// another, runs the package's own tests on each, and says which changes no test noticed.
//
//	go run ./deploy/dev/mutants [PACKAGE...]
//
// plan.txt names the packages and their files with decisions. survivors.txt names the changes that no test can notice,
// with why: one that is not there any more is told, so that the list stays true. It exits 1 when less than 85 of 100
// mutants are noticed in any package; one that makes the tests go on for ever is noticed.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

const least = 85 // of 100 mutants must be noticed

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only []string) error {
	plans, err := readPlan("deploy/dev/mutants/plan.txt")
	if err != nil {
		return fmt.Errorf("%w: run it from the repository's root", err)
	}
	known, err := readSurvivors("deploy/dev/mutants/survivors.txt")
	if err != nil {
		return err
	}
	var below []string
	for _, p := range plans {
		if len(only) > 0 && !slices.Contains(only, p.dir) {
			continue
		}
		all, err := p.mutants()
		if err != nil {
			return fmt.Errorf("%s: %w", p.dir, err)
		}
		said, err := trials(ctx, p, all)
		if err != nil {
			return fmt.Errorf("%s: %w", p.dir, err)
		}
		t := judge(all, said, known)
		t.print(os.Stdout, p.dir)
		if t.share() < least {
			below = append(below, p.dir)
		}
	}
	if below != nil {
		return errors.New(fmt.Sprint("too few are noticed in ", below))
	}
	return nil
}
