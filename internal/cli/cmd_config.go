//go:build linux

package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"slipway/internal/cli/render"
	"slipway/internal/config"
	"slipway/internal/errs"
	"slipway/internal/service"
	"slipway/internal/setup"
	"slipway/internal/units"
)

// configFile is the flag that names the configuration.
func configFile(c *cobra.Command) *string {
	return c.Flags().String("config", config.StandardPath, "the configuration file")
}

// configCommand is `slipway config`.
func configCommand(env Env) *cobra.Command {
	c := &cobra.Command{
		Use: "config", Short: "Check or migrate the configuration, print an example or its schema", Args: nothingElse,
		Example: "  slipway config check",
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	check := &cobra.Command{
		Use: "check", Short: "Check the configuration file; - is standard input", Args: nothingElse,
		Example: "  slipway config check --config new.yaml",
	}
	path := configFile(check)
	check.RunE = func(*cobra.Command, []string) error { return runConfigCheck(env, *path) }
	c.AddCommand(check, &cobra.Command{
		Use: "example", Short: "Print a configuration with every key explained", Args: nothingElse,
		Example: "  slipway config example > slipway.yaml",
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprint(env.Stdout, config.Example())
			return err
		},
	}, &cobra.Command{
		Use: "schema", Short: "Print a JSON Schema of the configuration, for editors", Args: nothingElse,
		Example: "  slipway config schema > slipway.schema.json",
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprint(env.Stdout, config.Schema())
			return err
		},
	}, configMigrateCommand(env))
	return c
}

func configMigrateCommand(env Env) *cobra.Command {
	c := &cobra.Command{
		Use: "migrate [FILE]", Short: "Rewrite a configuration of an earlier version, and say what changes",
		Example: "  slipway config migrate | diff /etc/slipway/slipway.yaml -\n  slipway config migrate --write\n" +
			"  slipway config migrate --write old.yaml",
		Args: cobra.MaximumNArgs(1),
		Long: "Rewrite a configuration of an earlier version.\n\n" +
			"Keys get the names that they have now, and those that are gone are taken out. Comments, order and layout stay. " +
			"Each change is a line on the standard error. The new text is printed; with --write it replaces the file.",
	}
	write := c.Flags().Bool("write", false, "replace the file, instead of printing it")
	path := configFile(c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		if len(args) > 0 {
			*path = args[0]
		}
		return runConfigMigrate(env, *path, *write)
	}
	return c
}

func runConfigMigrate(env Env, file string, write bool) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return asRoot(errs.New(errs.Invalid, "read the configuration: %w", err))
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
		return asRoot(err)
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

// initCommand is `slipway init`.
func initCommand(env Env) *cobra.Command {
	site, hubUser, yes := setup.Default(), "", false
	c := &cobra.Command{
		Use: "init", Short: "Write a first configuration, and what the Hub has to load", Args: nothingElse,
		Long: "Write a first configuration of the service, the two tokens that it shares with the Hub, and what the Hub's own\n" +
			"configuration has to load. It asks what no flag says, and ends with what is left to do. A configuration that is\n" +
			"there is not changed; tokens that are there are kept.",
		Example: "  slipway init\n  slipway init --yes --hub-user jupyterhub --admin alice --admin bob\n" +
			"  slipway init --yes --hub-api https://hub.example.org/hub/api --listen 0.0.0.0:8090 " +
			"--tls-cert /etc/ssl/slipway.pem --tls-key /etc/ssl/private/slipway.key",
	}
	path := configFile(c)
	f := c.Flags()
	f.StringVar(&site.HubAPI, "hub-api", site.HubAPI, "where this host reaches the Hub's REST API")
	f.StringSliceVar(&site.Admins, "admin", site.Admins, "users of the Hub who are administrators of Slipway")
	f.StringVar(&site.Image, "image", site.Image, "the image of notebook sessions")
	f.StringVar(&site.Listen, "listen", site.Listen, "where the Hub reaches the service: an address of this host")
	f.StringVar(&hubUser, "hub-user", "", "the account that JupyterHub runs as, where that is not root: it gets the Hub's files")
	f.StringVar(&site.TLSCert, "tls-cert", "", "the service's certificate (PEM), where the Hub is on another host")
	f.StringVar(&site.TLSKey, "tls-key", "", "the key of that certificate (PEM)")
	f.BoolVar(&site.AllowPlainHTTP, "allow-plain-http", false, "serve other hosts without TLS: only where a proxy in front ends it")
	f.BoolVar(&yes, "yes", false, "ask nothing: take the default of what no flag says")
	c.RunE = func(c *cobra.Command, _ []string) error {
		whole, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		if !yes {
			if err := ask(c, env, "hub-api", "admin", "image", "listen"); err != nil {
				return err
			}
		}
		return runInit(env, setup.Below(whole, hubUser), site)
	}
	return c
}

// ask asks for flags that were not given. An empty line is the default.
func ask(c *cobra.Command, env Env, flags ...string) error {
	lines := bufio.NewScanner(env.Stdin)
	for _, name := range flags {
		f := c.Flags().Lookup(name)
		if f.Changed {
			continue
		}
		fmt.Fprintf(env.Stderr, "%s [%s]: ", f.Usage, strings.Trim(f.DefValue, "[]"))
		if !lines.Scan() {
			fmt.Fprintln(env.Stderr)
			return errs.New(errs.Invalid, "the input has ended before --%s was answered", name).
				With("answer each question, or give --yes to take the defaults")
		}
		answer := strings.TrimSpace(lines.Text())
		if answer == "" {
			continue
		}
		if err := c.Flags().Set(name, answer); err != nil {
			return usageError{err}
		}
	}
	return nil
}

func runInit(env Env, files setup.Files, site setup.Site) error {
	if err := setup.Write(files, site); err != nil {
		return asRoot(err)
	}
	c, err := config.Load(files.Config)
	if err == nil {
		err = service.CheckConfig(c)
	}
	if err != nil {
		return err
	}
	p := render.Page{W: env.Stdout}
	p.Printf("Made:\n")
	for _, file := range []string{files.Config, files.SpawnerToken, files.ServiceToken, files.Hub} {
		p.Printf("  %s\n", file)
	}
	p.Printf("Left to do:\n")
	p.Printf("  1. %s\n", imageStep(site.Image))
	p.Printf("  2. Install Slipway's Python package beside JupyterHub, in its Python environment:\n")
	p.Printf("       pip install /usr/share/slipway/slipway-*.whl 'jsonschema<4.25'\n")
	start := "systemctl enable --now slipway"
	if files.Config != config.StandardPath {
		start = "slipway serve --config " + files.Config
	}
	p.Printf("  3. Start the service:  %s\n", start)
	p.Printf("  4. Put this line at the end of jupyterhub_config.py, and restart the Hub.\n")
	p.Printf("     A Hub on another host needs its own copy of this file and the two tokens.\n")
	p.Printf("       exec(open(%q).read())\n", files.Hub)
	p.Printf("     The Hub's log then says: Using Spawner: slipway.spawner.SlipwaySpawner\n")
	p.Printf("  5. See what is missing:  slipway doctor --config %s\n", files.Config)
	return p.Err
}

// imageStep says how the image of notebook sessions comes into the Docker Engine.
func imageStep(image string) string {
	if image == setup.Default().Image {
		return "Build the image of notebook sessions:\n       BASE_IMAGE=debian:trixie-slim " +
			"/usr/share/slipway/deploy/images/notebook/build /usr/share/slipway/slipway-*.whl"
	}
	return "Get the image of notebook sessions:  docker pull " + image
}
