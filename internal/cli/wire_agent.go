//go:build linux

package cli

import (
	"errors"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"slipway/internal/agent"
	"slipway/spawner/docker/wake"
	"slipway/spawner/local"
)

// agentCommand is `slipway agent`: the first process of every session and job.
func agentCommand(env Env) *cobra.Command {
	return &cobra.Command{
		Use: "agent", Short: "Run as a workload's first process (started by the service)", Hidden: true, Args: nothingElse,
		RunE: func(c *cobra.Command, _ []string) error {
			beThrifty() // it lives in the workload's memory
			err := agent.Run(c.Context(), agent.Config{Alone: true, Logger: slog.New(slog.NewTextHandler(env.Stderr, nil))})
			if app, ok := errors.AsType[*agent.ExitError](err); ok {
				return exitCode(app.Code)
			}
			return err
		},
	}
}

// localShimCommand, localEnterCommand, localNetworkCommand and localImageCommand are how the backend `local` starts a
// job.
func localShimCommand() *cobra.Command {
	return &cobra.Command{
		Use: "local-shim DIR", Short: "Supervise one job (started by the service)", Hidden: true, Args: exactly(1, "a directory"),
		RunE: func(c *cobra.Command, args []string) error { return local.Shim(c.Context(), args[0]) },
	}
}

// dockerWakeCommand is how the backend `docker` has a container woken if the service dies in a freeze.
func dockerWakeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "docker-wake HOST CONTAINER", Short: "Wake a container if the service dies (started by the service)", Hidden: true, Args: exactly(2, "an engine and a container"),
		RunE: func(c *cobra.Command, args []string) error {
			return wake.Watch(c.Context(), args[0], args[1], os.Stdin)
		},
	}
}

func localEnterCommand() *cobra.Command {
	return &cobra.Command{
		Use: "local-enter DIR", Short: "Become one job's Apptainer (started by local-shim)", Hidden: true, Args: exactly(1, "a directory"),
		RunE: func(_ *cobra.Command, args []string) error { return local.Enter(args[0]) },
	}
}

func localNetworkCommand() *cobra.Command {
	return &cobra.Command{
		Use: "local-network DIR", Short: "Become the pasta of one job's network (started by local-shim)", Hidden: true, Args: exactly(1, "a directory"),
		RunE: func(_ *cobra.Command, args []string) error { return local.Connect(args[0]) },
	}
}

func localImageCommand() *cobra.Command {
	return &cobra.Command{
		Use: "local-image DIR", Short: "Serve an image to several jobs (started by the service)", Hidden: true, Args: exactly(1, "a directory"),
		RunE: func(_ *cobra.Command, args []string) error { return local.Image(args[0]) },
	}
}
