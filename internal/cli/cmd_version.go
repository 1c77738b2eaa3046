package cli

import (
	"io"

	"github.com/spf13/cobra"

	"slipway/internal/cli/render"
	"slipway/internal/version"
)

// versionCommand is `slipway version`.
func versionCommand(env Env) *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use: "version", Short: "Print this program's version, commit and date", Args: nothingElse,
		Example: "  slipway version",
		RunE: func(*cobra.Command, []string) error {
			b := version.This()
			if asJSON {
				return env.data(b)
			}
			return printVersion(env.Stdout, b)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// printVersion leaves out a commit that is not known.
func printVersion(w io.Writer, b version.Build) error {
	p := render.Page{W: w}
	p.Printf("slipway %s (%s, %s)\n", b.Version, b.Go, b.Platform)
	if b.Revision != "" {
		p.Printf("commit %s, %s\n", b.Revision, b.Date)
	}
	return p.Err
}
