//go:build linux

package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"slipway/internal/cli/render"
	"slipway/internal/doctor"
)

// doctorCommand is `slipway doctor`.
func doctorCommand(env Env) *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use: "doctor", Short: "Look at this host for what the service needs; data looks at your data, in a session",
		Args: nothingElse,
		Long: "Look at this host for what the service needs, and say what to do about what is missing. It changes nothing.\n" +
			"Exit code 1 when something is missing that the service cannot do without.",
	}
	path := configFile(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.RunE = func(c *cobra.Command, _ []string) error { return runDoctor(c.Context(), env, *path, asJSON) }
	c.AddCommand(doctorDataCommand(env))
	return c
}

func runDoctor(ctx context.Context, env Env, path string, asJSON bool) error {
	findings, err := doctor.Look(ctx, path, newLogger(env, false, false))
	if err != nil {
		return err
	}
	if err := printFindings(env, findings, asJSON); err != nil {
		return err
	}
	if slices.ContainsFunc(findings, func(f doctor.Finding) bool { return f.Result == "fail" }) {
		return exitCode(exitError)
	}
	return nil
}

func printFindings(env Env, findings []doctor.Finding, asJSON bool) error {
	if asJSON {
		return render.JSON(env.Stdout, findings)
	}
	var rows [][]string
	for _, f := range findings {
		rows = append(rows, []string{f.Result, f.Check, f.Message})
	}
	if err := render.Table(env.Stdout, []string{"RESULT", "CHECK", "FINDING"}, rows, ""); err != nil {
		return err
	}
	for _, f := range findings {
		if f.Remedy != "" {
			fmt.Fprintf(env.Stdout, "\n%s: %s\n", f.Check, f.Remedy)
		}
	}
	return nil
}
