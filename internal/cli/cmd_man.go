package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"slipway/internal/cli/manual"
	"slipway/internal/version"
)

// manCommand is `slipway man`, by which packages get their pages.
func manCommand() *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Short: "Write the man pages of all commands into a directory", Hidden: true,
		Args: exactly(1, "a directory"),
		RunE: func(c *cobra.Command, args []string) error {
			b := version.This()
			day, _, _ := strings.Cut(b.Date, "T")
			return manual.Write(c.Root(), args[0], b.Version, day)
		},
	}
}
