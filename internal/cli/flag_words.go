package cli

import (
	"github.com/spf13/cobra"

	"slipway/internal/errs"
)

// flagOf returns the flag by which users say a field of a request.
func flagOf(field string) string {
	return map[string]string{
		"after": "--after", "backend": "--to", "cpus": "--cpus", "environment": "--env", "gpu": "--gpu",
		"memory": "--mem", "name": "--name",
		"options.environment": "--env", "out": "--out", "priority": "--priority", "profile": "--profile",
		"image": "--image", "retries": "--retry", "time_limit": "--time",
	}[field]
}

// inFlags has a command's refusals name its flags in place of the API's fields.
func inFlags(run func(c *cobra.Command, args []string) error) func(c *cobra.Command, args []string) error {
	return func(c *cobra.Command, args []string) error {
		err := run(c, args)
		if e, ok := err.(*errs.Error); ok && flagOf(e.Field) != "" {
			return e.Called(flagOf(e.Field))
		}
		return err
	}
}
