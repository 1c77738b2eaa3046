package cli

import (
	"context"
	"fmt"

	"slipway/hubapi"
	"slipway/internal/cli/render"
	"slipway/internal/units"
)

func runJobWhy(ctx context.Context, env Env, id string, asJSON bool) error {
	client, id, err := connectForID(ctx, env, id)
	if err != nil {
		return err
	}
	why := client.WhyJob
	if ofScan(id) {
		why = client.WhyScan
	}
	e, err := why(ctx, id)
	if err != nil {
		return err
	}
	if asJSON {
		return env.data(e)
	}
	return printWhy(env, e)
}

// printWhy prints an explanation: what it comes to first, then what it is made of.
func printWhy(env Env, e hubapi.Explanation) error {
	fmt.Fprintf(env.Stdout, "%s: %s\n", e.Job, render.Printable(e.Summary))
	if e.Remedy != "" {
		fmt.Fprintf(env.Stdout, "  -> %s\n", render.Printable(e.Remedy))
	}
	if e.Slots == 0 && len(e.Clauses) == 0 {
		return nil
	}
	fmt.Fprintf(env.Stdout, "\nOf %s, %s what it asks for, %s free for it now.\n\n",
		units.Count(int64(e.Slots), "slot", "slots"), agree(e.Fit, "has", "have"), agree(e.Free, "is", "are"))
	var rows [][]string
	for _, c := range e.Clauses {
		rows = append(
			rows, []string{c.Words, fmt.Sprintf("%d of %d", c.Excludes, e.Slots), fmt.Sprint(c.Alone), c.Text},
		)
	}
	return render.Table(
		env.Stdout, []string{"REQUIREMENT", "EXCLUDES", "IT ALONE", "AS THE BATCH SYSTEM HAS IT"}, rows,
		"It has no requirements.",
	)
}

// agree joins a number and a verb.
func agree(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return units.Grouped(int64(n)) + " " + many
}
