//go:build linux

package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"slipway/internal/config"
	"slipway/internal/service"
	"slipway/internal/units"
)

// configFile is the flag that names the configuration.
func configFile(c *cobra.Command) *string {
	return c.Flags().String("config", config.StandardPath, "the configuration file")
}

// configCommand is `slipway config`.
func configCommand(env Env) *cobra.Command {
	c := &cobra.Command{Use: "config", Short: "Check the service's configuration, or print an example", Args: nothingElse,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	check := &cobra.Command{Use: "check", Short: "Check the configuration file; - is standard input", Args: nothingElse}
	path := configFile(check)
	check.RunE = func(*cobra.Command, []string) error { return runConfigCheck(env, *path) }
	c.AddCommand(check, &cobra.Command{
		Use: "example", Short: "Print a configuration with every key explained", Args: nothingElse,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprint(env.Stdout, config.Example())
			return err
		},
	})
	return c
}

// readConfig reads a configuration from the standard input.
func readConfig(env Env, from string) (config.Config, error) {
	text, err := io.ReadAll(env.Stdin)
	if err != nil {
		return config.Config{}, fmt.Errorf("%s: %w", from, err)
	}
	return config.Read(text, from)
}

func runConfigCheck(env Env, path string) error {
	load := config.Load
	if path == "-" {
		path, load = "standard input", func(from string) (config.Config, error) { return readConfig(env, from) }
	}
	c, err := load(path)
	if err != nil {
		return err
	}
	if err := service.CheckConfig(c); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if c.Local.Network == "host" {
		fmt.Fprintln(env.Stderr, "local.network is host: jobs reach all that listens on this host, and can take the service's port while it restarts. outward is safe")
	}
	_, err = fmt.Fprintf(env.Stdout, "%s is good: %s, %s, %s\n", path, units.Count(int64(len(c.Hubs)), "hub", "hubs"), units.Count(int64(len(c.Images)), "image", "images"), units.Count(int64(len(c.Profiles)), "profile", "profiles"))
	return err
}
