//go:build linux

package cli

import (
	"errors"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	node "slipway/internal/worker"
)

// workerCommand is `slipway worker`: what a batch system starts on a worker node, in the directory that it made for one
// workload.
func workerCommand(env Env) *cobra.Command {
	return &cobra.Command{
		Use: "worker", Short: "Run one workload on a worker node (started by a batch system)", Hidden: true, Args: nothingElse,
		RunE: func(c *cobra.Command, _ []string) error {
			self, err := os.Executable()
			if err != nil {
				return err
			}
			err = node.Run(c.Context(), node.Config{
				Dir: ".", Program: self, Env: os.Environ(), Logger: slog.New(slog.NewTextHandler(env.Stderr, nil)),
			})
			if run, ok := errors.AsType[*node.ExitError](err); ok {
				return exitCode(run.Code)
			}
			return err
		},
	}
}

// workerKeepCommand is how the worker starts Apptainer.
func workerKeepCommand() *cobra.Command {
	return &cobra.Command{
		Use: node.KeepCommand + " ARGV...", Short: "Keep one container (started by worker)", Hidden: true, DisableFlagParsing: true,
		RunE: func(c *cobra.Command, args []string) error {
			code, err := node.Keep(c.Context(), args)
			if err != nil {
				return err
			}
			return exitCode(code)
		},
	}
}
