// Command program is what the worker's tests run on their node: the worker, what it starts, and the agent inside.
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
	"slipway/internal/worker"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	code, err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

func run(ctx context.Context, args []string) (int, error) {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	self, err := os.Executable()
	if err != nil {
		return 1, err
	}
	switch args[0] {
	case "agent":
		err = agent.Run(ctx, agent.Config{Alone: true, Logger: log})
	case worker.KeepCommand:
		return worker.Keep(ctx, args[1:])
	default:
		err = worker.Run(ctx, worker.Config{Dir: ".", Program: self, Env: os.Environ(), Logger: log})
	}
	if e, ok := errors.AsType[interface {
		error
		ExitCode() int
	}](err); ok {
		return e.ExitCode(), err
	}
	if err != nil {
		return 1, err
	}
	return 0, nil
}
