package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"slipway/internal/cli/render"
	"slipway/internal/version"
)

// versionCommand is `slipway version`.
func versionCommand(env Env) *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use: "version", Short: "Print what this program was built from", Args: nothingElse,
		RunE: func(*cobra.Command, []string) error {
			b := version.This()
			if asJSON {
				return render.JSON(env.Stdout, b)
			}
			_, err := fmt.Fprintf(env.Stdout, "slipway %s (%s, %s)\n", b.Version, b.Go, b.Platform)
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}
