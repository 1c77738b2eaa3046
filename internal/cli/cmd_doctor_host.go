//go:build linux

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"slipway/internal/doctor"
)

// hostDoctor adds to `slipway doctor` what a host of the service has, and returns how it looks at that.
func hostDoctor(env Env, c *cobra.Command) func(context.Context) ([]finding, error) {
	path := configFile(c)
	c.AddCommand(doctorDataCommand(env))
	return func(ctx context.Context) ([]finding, error) {
		found, err := doctor.Look(ctx, *path, newLogger(env, false, false))
		var all []finding
		for _, f := range found {
			all = append(all, finding(f))
		}
		return all, err
	}
}
