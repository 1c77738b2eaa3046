// Program slipway-job is the part of slipway that is started anew for each job of the backend `local`: the keeper of
// the job, what becomes its Apptainer or serves its image, its agent, and what looks at its owner's home. It takes the
// arguments that slipway itself takes for these, and does the same. It exists because a program of Go begins by setting
// up all that is linked into it: slipway takes 20 ms of a processor for that, and this a quarter, four times a job. It
// must not import what only the service or its commands need.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"slipway/internal/agent"
	"slipway/internal/homes"
	"slipway/spawner/docker/wake"
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
	switch {
	case len(args) == 1 && args[0] == "agent":
		return agent.Run(ctx, agent.Config{Alone: true, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	case len(args) == 2 && args[0] == "local-shim":
		return local.Shim(ctx, args[1])
	case len(args) == 2 && args[0] == "local-enter":
		return local.Enter(args[1])
	case len(args) == 2 && args[0] == "local-network":
		return local.Connect(args[1])
	case len(args) == 2 && args[0] == "local-image":
		return local.Image(args[1])
	case len(args) == 3 && args[0] == "docker-wake":
		return wake.Watch(ctx, args[1], args[2], os.Stdin)
	case len(args) == 2 && args[0] == "look-home":
		return homes.Look(os.Stdout, args[1])
	case len(args) == 1 && args[0] == "version":
		return version()
	default:
		return errors.New("it is started by slipway")
	}
}

// version prints what the service compares with its own.
func version() error {
	identity, err := local.Identity(homes.Sources())
	if err == nil {
		_, err = fmt.Println(identity)
	}
	return err
}
