package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"slipway/hubapi"
)

// envsCommand is `slipway envs`.
func envsCommand(env Env) *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use: "envs", Aliases: []string{"environments"}, Short: "List your environments; show one", Args: nothingElse,
		RunE: func(c *cobra.Command, _ []string) error { return runEnvs(c.Context(), env, asJSON) },
	}
	c.PersistentFlags().BoolVar(&asJSON, "json", false, "print the API's JSON")
	c.AddCommand(&cobra.Command{
		Use: "show REF", Short: "Show one environment, by digest, the beginning of it, name or name:tag", Args: exactly(1, "an environment"),
		RunE: func(c *cobra.Command, args []string) error { return runEnvShow(c.Context(), env, args[0], asJSON) },
	})
	return c
}

func runEnvs(ctx context.Context, env Env, asJSON bool) error {
	client, err := connect(env)
	if err != nil {
		return err
	}
	list, err := client.Environments(ctx, false)
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(env.Stdout, hubapi.Environments{Environments: list})
	}
	var rows [][]string
	for _, e := range list {
		rows = append(rows, []string{
			shortDigest(e.Digest), e.Name, e.Tag, megabytes(e.Size), e.Python, fmt.Sprint(e.Packages), e.Base, ago(e.Created, time.Now()), e.Note,
		})
	}
	head := []string{"DIGEST", "NAME", "TAG", "SIZE", "PYTHON", "PACKAGES", "BASE", "MADE", "NOTE"}
	return printTable(env.Stdout, head, rows, "No environments. `slipway freeze` in a session makes one; so does %%grid.")
}

func runEnvShow(ctx context.Context, env Env, ref string, asJSON bool) error {
	client, err := connect(env)
	if err != nil {
		return err
	}
	e, err := client.Environment(ctx, ref)
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(env.Stdout, e)
	}
	return printPairs(env.Stdout, [][2]string{
		{"digest", e.Digest}, {"name", e.Name}, {"tag", e.Tag}, {"note", e.Note}, {"made", e.Created.Local().Format(time.DateTime)},
		{"size", megabytes(e.Size)}, {"base", e.Base}, {"session", e.Session}, {"python", e.Python}, {"packages", fmt.Sprint(e.Packages)},
	})
}
