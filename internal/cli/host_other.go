//go:build !linux

package cli

import (
	"context"

	"github.com/spf13/cobra"
)

// hostCommands are none on a laptop: what is left speaks to a service elsewhere.
func hostCommands(Env) []*cobra.Command { return nil }

func hostEnvCommands(Env, *bool) []*cobra.Command { return nil }

func hostGPUCommands(Env) []*cobra.Command { return nil }

func hostDoctor(Env, *cobra.Command) func(context.Context) ([]finding, error) { return nil }
