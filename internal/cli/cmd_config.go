//go:build linux

package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"slipway/internal/config"
	"slipway/internal/errs"
	"slipway/internal/service"
	"slipway/internal/units"
)

// configFile is the flag that names the configuration.
func configFile(c *cobra.Command) *string {
	return c.Flags().String("config", config.StandardPath, "the configuration file")
}

// configCommand is `slipway config`.
func configCommand(env Env) *cobra.Command {
	c := &cobra.Command{Use: "config", Short: "Check or migrate the configuration, print an example or its schema", Args: nothingElse,
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
	}, &cobra.Command{
		Use: "schema", Short: "Print a JSON Schema of the configuration, for editors", Args: nothingElse,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprint(env.Stdout, config.Schema())
			return err
		},
	}, configMigrateCommand(env))
	return c
}

func configMigrateCommand(env Env) *cobra.Command {
	c := &cobra.Command{
		Use: "migrate FILE", Short: "Rewrite a configuration of an earlier version, and say what changes",
		Args: cobra.ExactArgs(1),
		Long: "Rewrite a configuration of an earlier version.\n\n" +
			"Keys get the names that they have now, and those that are gone are taken out. Comments, order and layout stay. " +
			"Each change is a line on the standard error. The new text is printed; with --write it replaces the file.",
	}
	write := c.Flags().Bool("write", false, "replace the file, instead of printing it")
	c.RunE = func(_ *cobra.Command, args []string) error { return runConfigMigrate(env, args[0], *write) }
	return c
}

func runConfigMigrate(env Env, file string, write bool) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return errs.New(errs.Invalid, "read the configuration: %w", err)
	}
	migrated, changes, err := config.Migrate(text, file)
	if err != nil {
		return err
	}
	for _, c := range changes {
		fmt.Fprintf(env.Stderr, "%s, line %d: %s\n", file, c.Line, c.What)
	}
	if len(changes) == 0 {
		fmt.Fprintf(env.Stderr, "%s has no key of an earlier version\n", file)
	}
	switch {
	case !write:
		_, err = env.Stdout.Write(migrated)
	case len(changes) > 0:
		err = replace(file, migrated)
	}
	return err
}

// replace makes a file hold a text, or leaves it as it was. It keeps its mode; a link goes on leading to it.
func replace(file string, text []byte) error {
	file, err := filepath.EvalSymlinks(file)
	if err != nil {
		return err
	}
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".new*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone after the rename
	_, err = f.Write(text)
	if err := errors.Join(err, f.Chmod(info.Mode().Perm()), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), file)
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
	_, err = fmt.Fprintf(
		env.Stdout, "%s is good: %s, %s, %s\n", path, units.Count(int64(len(c.Hubs)), "hub", "hubs"),
		units.Count(int64(len(c.Images)), "image", "images"),
		units.Count(int64(len(c.Profiles)), "profile", "profiles"),
	)
	return err
}
