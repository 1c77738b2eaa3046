//go:build linux

package cli

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"slipway/internal/config"
	"slipway/internal/service"
	"slipway/internal/sockets"
)

// serveCommand is `slipway serve`.
func serveCommand(env Env) *cobra.Command {
	asJSON, verbose, hold := false, false, false
	c := &cobra.Command{
		Use: "serve", Short: "Run the service", Args: nothingElse,
		Example: "  slipway serve --config /etc/slipway/slipway.yaml",
	}
	path := configFile(c)
	c.Flags().BoolVar(&asJSON, "log-json", false, "write the log as JSON lines")
	c.Flags().BoolVar(&verbose, "verbose", false, "log details too")
	c.Flags().BoolVar(&hold, "hold", false, "run the service in a child, hold its ports while that restarts, and start it again whenever it ends; without systemd")
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := config.Load(*path)
		if err != nil {
			return err
		}
		// Sessions and jobs run as their users, who need the way to the programs and directories that the service makes
		// for them: what it keeps to itself it says with each file, and no mask of who starts it may take more away.
		syscall.Umask(0o022)
		log := newLogger(env, asJSON, verbose)
		if hold {
			return holdPorts(
				c.Context(), cfg, log, "serve", "--config", *path, fmt.Sprintf("--log-json=%t", asJSON),
				fmt.Sprintf("--verbose=%t", verbose),
			)
		}
		return service.Serve(c.Context(), cfg, log)
	}
	return c
}

// holdPorts holds the service's ports for this program with other arguments, which it runs in a child.
func holdPorts(ctx context.Context, cfg config.Config, log *slog.Logger, args ...string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	argv := append([]string{strings.TrimSuffix(self, " (deleted)")}, args...)
	return sockets.Hold(ctx, argv, sockets.Addresses(cfg), log)
}

func newLogger(env Env, asJSON, verbose bool) *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.LevelInfo}
	if verbose {
		options.Level = slog.LevelDebug
	}
	if asJSON {
		return slog.New(slog.NewJSONHandler(env.Stderr, options))
	}
	return slog.New(slog.NewTextHandler(env.Stderr, options))
}
