//go:build linux

package cli

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"slipway/internal/bench"
	"slipway/internal/cli/render"
	"slipway/internal/errs"
	"slipway/internal/secret"
)

// benchCommand is `slipway bench`.
func benchCommand(env Env) *cobra.Command {
	c := &cobra.Command{
		Use: "bench", Short: "Measure a JupyterHub under load", Args: nothingElse,
		Example: "  slipway bench hub --hub-url http://127.0.0.1:8000 --token-file bench.token",
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(benchHubCommand(env))
	return c
}

// benchHub is what `slipway bench hub` is told.
type benchHub struct {
	load           bench.Config
	url, tokenFile string
	asJSON         bool
}

func benchHubCommand(env Env) *cobra.Command {
	var b benchHub
	c := &cobra.Command{
		Use: "hub", Short: "Start, use and stop the servers of many users at a JupyterHub", Args: nothingElse,
		Example: "  slipway bench hub --hub-url http://127.0.0.1:8000 --token-file bench.token --users 50",
		Long: "Make users at a JupyterHub, start a server for each, ask each for its API through the Hub's proxy, stop them and\n" +
			"remove the users. The Hub may have any Spawner. Interrupted, the command clears up what it has made; that takes a while.\n\n" +
			"The token is of a service of the Hub with the scopes admin:users, admin:servers, list:users, read:servers and tokens.\n" +
			"All servers are started with default options and count against the site's limits as any user's do.",
		RunE: func(c *cobra.Command, _ []string) error { return b.run(c.Context(), env) },
	}
	f := c.Flags()
	f.StringVar(&b.url, "hub-url", "", "the Hub's address as users have it, such as http://127.0.0.1:8000")
	f.StringVar(&b.tokenFile, "token-file", "", "file with the token")
	f.IntVar(&b.load.Users, "users", 10, fmt.Sprintf("users, at most %d", bench.MostUsers))
	f.Float64Var(&b.load.Rate, "rate", 0, "starts asked for in a second; 0: as fast as they are answered")
	f.IntVar(&b.load.Concurrency, "concurrency", 20, "users who wait for the Hub at one time")
	f.DurationVar(&b.load.Hold, "hold", 0, "how long all servers stay up")
	f.DurationVar(&b.load.Limit, "limit", bench.Longest, "how long all may take before it is cut off and cleared up")
	f.BoolVar(&b.load.Shared, "yes", false, "also at a Hub where others have servers, for whom it becomes slow")
	f.BoolVar(&b.asJSON, "json", false, "print the report as JSON")
	return c
}

func (b benchHub) run(ctx context.Context, env Env) error {
	if b.tokenFile == "" {
		return errs.Bad("token-file", "", "a file with the token of a service of the Hub")
	}
	token, err := os.ReadFile(b.tokenFile)
	if err != nil {
		return errs.New(errs.Invalid, "read the token: %w", err).With("check --token-file")
	}
	if b.load.Hub, err = bench.NewJupyterHub(b.url, secret.New(strings.TrimSpace(string(token)))); err != nil {
		return err
	}
	b.load.Name = strings.ToLower(rand.Text()[:8])
	b.load.Tell = func(s bench.State) { fmt.Fprintln(env.Stderr, s) }
	report, err := bench.Run(ctx, b.load)
	if err != nil {
		return err
	}
	if b.asJSON {
		err = env.data(report)
	} else {
		err = printReport(env, report)
	}
	if err == nil && (report.Failed() > 0 || report.Cut != "") {
		return exitCode(exitError)
	}
	return err
}

func printReport(env Env, r bench.Report) error {
	head, rows := r.Rows()
	if err := render.Table(env.Stdout, head, rows, ""); err != nil {
		return err
	}
	fmt.Fprintf(
		env.Stdout, "\n%d of %d servers up within %.1f s, %d at one time; all stopped within %.1f s\n", r.Up, r.Users,
		r.UpSeconds, r.MostUp, r.DownIn,
	)
	if r.Cut != "" {
		fmt.Fprintf(env.Stdout, "interrupted: %s\n", render.Printable(r.Cut))
	}
	for _, why := range r.Why() {
		fmt.Fprintln(env.Stdout, render.Printable(why))
	}
	if len(r.Left) > 0 {
		fmt.Fprintf(env.Stdout, "could not be removed, remove them at the Hub: %s\n", strings.Join(r.Left, " "))
	}
	return nil
}
