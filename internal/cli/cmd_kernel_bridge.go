//go:build linux

package cli

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"slipway/internal/agent/kernelspecs"
	"slipway/internal/errs"
	"slipway/kernels/kernelproxy"
)

// kernelBridgeCommand is what a kernelspec of the service's has Jupyter start in a session.
func kernelBridgeCommand(env Env) *cobra.Command {
	cfg := kernelproxy.Config{Has: kernelproxy.SessionHas, Logger: slog.New(slog.NewTextHandler(env.Stderr, nil))}
	c := &cobra.Command{
		Use: kernelspecs.Command, Short: "Be a kernel that runs on a slice (started by Jupyter in a session)",
		Hidden: true,
		// Programs such as `jupyter run` and `jupyter console` pass words of theirs on to the kernel: IPython's kernels
		// take no notice either.
		Args: cobra.ArbitraryArgs, FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true},
		RunE: func(c *cobra.Command, _ []string) error {
			if cfg.Socket = socketOf(env); cfg.Socket == "" {
				return errs.New(errs.Invalid, "this is no session of Slipway's").
					With("start the kernel in one, or give its Jupyter Server --gateway-url")
			}
			cfg.Dir, _ = os.Getwd() // a directory that is gone is not the kernel's either
			// Jupyter names itself to kernels that are not to outlive it.
			if env.Getenv("JPY_PARENT_PID") != "" {
				cfg.Parent = os.Getppid
			}
			interrupts := make(chan os.Signal, 1)
			signal.Notify(interrupts, os.Interrupt)
			defer signal.Stop(interrupts)
			cfg.Interrupt = interrupts
			ctx, stop := signal.NotifyContext(context.WithoutCancel(c.Context()), syscall.SIGTERM, syscall.SIGHUP)
			defer stop()
			return kernelproxy.Run(ctx, cfg)
		},
	}
	c.Flags().StringVar(&cfg.Spec, "spec", "", "the kernelspec's name at the service")
	c.Flags().StringVar(&cfg.Language, "language", "python", "its language")
	c.Flags().StringVarP(&cfg.File, "file", "f", "", "the connection file")
	for _, name := range []string{"spec", "file"} {
		_ = c.MarkFlagRequired(name)
	}
	return c
}
