// Program slipway-job has what slipway starts of itself for each job of the backend `local`, and to look at its owner's
// home, and nothing else (see package programs). It exists because a program of Go begins by setting up all that is
// linked into it: slipway takes 20 ms of a processor for that, and this a quarter, four times a job.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"slipway/internal/agent"
	"slipway/internal/homes"
	"slipway/internal/programs"
	"slipway/spawner/local"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if app, ok := errors.AsType[*agent.ExitError](err); ok {
		os.Exit(app.Code)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "slipway-job:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if slices.Equal(args, []string{"version"}) {
		return version()
	}
	for _, p := range programs.All() {
		if len(args) == 1+len(p.Args) && args[0] == p.Name {
			return p.Run(ctx, args[1:], programs.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
		}
	}
	return errors.New("it is started by slipway")
}

// version prints what the service compares with its own.
func version() error {
	identity, err := local.Identity(homes.Sources())
	if err == nil {
		_, err = fmt.Println(identity)
	}
	return err
}
