// Program simulated is the service over a simulated world, for measuring the service alone: the real HTTP server,
// engine, store and accounts, with a backend and agents that are played in memory. No container ever runs; whatever a
// session answers says so.
//
// It listens on loopback only and must never stand for the service anywhere but in a benchmark: beside the service's
// own routes it tells, to anybody who asks, how long its answers took.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

const usage = `usage:
  simulated serve --dir DIR --token-file FILE [--listen HOST:PORT] [--start D] [--boot D] [--stop D]
                                     the service over a simulated world; its figures at the end
  simulated curve --dir DIR [--levels N,N] [--steady D] [--idle D]
                                     what a session costs a service that has N of them; JSON
See simulated serve -h and simulated curve -h`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "simulated:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	switch args[0] {
	case "serve":
		return serve(ctx, args[1:])
	case "curve":
		return curve(ctx, args[1:])
	default:
		return errors.New(usage)
	}
}
