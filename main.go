// Command slipway is the whole of Slipway in one binary: the service (`slipway serve`), the agent inside sessions and
// jobs (`slipway agent`, built with CGO_ENABLED=0), and the command line for people.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"slipway/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Run(ctx, os.Args[1:], cli.Env{Getenv: os.Getenv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr})
	stop()
	os.Exit(code)
}
