//go:build linux

package cli

import (
	"errors"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"slipway/internal/gpu/mps"
	"slipway/internal/mounts"
	"slipway/internal/worker"
)

// The commands here are started by the service and by batch systems, never by people: --help does not show them.

// workerCommand is `slipway worker`: what a batch system starts on a worker node, in the directory that it made for one
// workload.
func workerCommand(env Env) *cobra.Command {
	return &cobra.Command{
		Use: "worker", Short: "Run one workload on a worker node (started by a batch system)", Hidden: true,
		Args: nothingElse,
		RunE: func(c *cobra.Command, _ []string) error {
			self, err := os.Executable()
			if err != nil {
				return err
			}
			err = worker.Run(c.Context(), worker.Config{
				Dir: ".", Program: self, Env: os.Environ(), Logger: slog.New(slog.NewTextHandler(env.Stderr, nil)),
			})
			if run, ok := errors.AsType[*worker.ExitError](err); ok {
				return exitCode(run.Code)
			}
			return err
		},
	}
}

// workerKeepCommand is how the worker starts Apptainer.
func workerKeepCommand() *cobra.Command {
	return &cobra.Command{
		Use: worker.KeepCommand + " ARGV...", Short: "Keep one container (started by worker)", Hidden: true,
		DisableFlagParsing: true,
		RunE: func(c *cobra.Command, args []string) error {
			code, err := worker.Keep(c.Context(), args)
			if err != nil {
				return err
			}
			return exitCode(code)
		},
	}
}

// mpsEncloseCommand is how a GPU's MPS daemon is started.
func mpsEncloseCommand() *cobra.Command {
	return &cobra.Command{
		Use: mps.EncloseCommand + " DIR -- PROGRAM...", Short: "Become a GPU's MPS daemon (started by the service)",
		Hidden: true, DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error { return mps.Enclose(args) },
	}
}

// probeDirectoryCommand is how directories are looked at whose file systems may never answer.
func probeDirectoryCommand(env Env) *cobra.Command {
	return &cobra.Command{
		Use: mounts.ProbeCommand + " LOCK DIR", Short: "Look whether a directory answers (started by the service)",
		Hidden: true, Args: exactly(2, "a lock and a directory"),
		RunE: func(_ *cobra.Command, args []string) error { return mounts.Probe(env.Stdout, args[0], args[1]) },
	}
}

// lookAtPathsCommand is how mounts are looked at that may never answer.
func lookAtPathsCommand(env Env) *cobra.Command {
	return &cobra.Command{
		Use: mounts.LookCommand, Short: "Look at paths that are read from standard input (started by the service)",
		Hidden: true, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return mounts.Look(c.Context(), env.Stdin, env.Stdout) },
	}
}

// renewMountCommand is how a running workload gets what was mounted anew.
func renewMountCommand(env Env) *cobra.Command {
	return &cobra.Command{
		Use:   mounts.RenewCommand + " PID SOURCE TARGET DEVICE",
		Short: "Mount a directory anew for a running workload (started by the service)", Hidden: true,
		Args: exactly(4, "a process, a directory, where it has it and what it has there"),
		RunE: func(_ *cobra.Command, args []string) error {
			return mounts.RenewMount(env.Stdout, args[0], args[1], args[2], args[3])
		},
	}
}
