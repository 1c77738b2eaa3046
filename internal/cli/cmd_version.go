package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"slipway/internal/cli/render"
)

// version is set by the linker: -X slipway/internal/cli.version=...
var version = "development"

// build says what this program was built from.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// versionCommand is `slipway version`.
func versionCommand(env Env) *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use: "version", Short: "Print what this program was built from", Args: nothingElse,
		RunE: func(*cobra.Command, []string) error {
			b := thisBuild()
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

func thisBuild() build {
	b := build{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				b.Revision = s.Value
			}
		}
	}
	return b
}
