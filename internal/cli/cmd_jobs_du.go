package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"slipway/hubapi"
	"slipway/internal/cli/render"
	"slipway/internal/units"
)

// jobUsageCommand is `slipway jobs du`.
func jobUsageCommand(env Env, asJSON *bool) *cobra.Command {
	return &cobra.Command{
		Use: "du", Short: "List what your jobs keep on disk, until when, and what you have used of your limits",
		Example: "  slipway jobs du",
		Args:    nothingElse,
		RunE:    func(c *cobra.Command, _ []string) error { return runJobUsage(c.Context(), env, *asJSON) },
	}
}

func runJobUsage(ctx context.Context, env Env, asJSON bool) error {
	client, err := connect(env)
	if err != nil {
		return err
	}
	u, err := client.JobsUsage(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		return env.data(u)
	}
	if err := render.Pairs(env.Stdout, usagePairs(u)); err != nil {
		return err
	}
	if len(u.Kept) == 0 {
		return nil
	}
	fmt.Fprintln(env.Stdout)
	var rows [][]string
	for _, k := range u.Kept {
		expires := "never"
		if k.Expires != nil {
			expires = k.Expires.Local().Format(time.DateTime)
		}
		rows = append(rows, []string{k.ID, k.Name, units.DiskWords(k.Bytes), units.Grouped(int64(k.Files)), expires})
	}
	return render.Table(env.Stdout, []string{"ID", "NAME", "SIZE", "FILES", "REMOVED"}, rows, "")
}

func usagePairs(u hubapi.JobsUsage) [][2]string {
	stored := units.DiskWords(u.Stored)
	if u.Store > 0 {
		stored += fmt.Sprintf(" of %s (%.0f%%)", units.DiskWords(u.Store), 100*float64(u.Stored)/float64(u.Store))
	}
	hours := ""
	if u.GPUHours > 0 || u.GPUMost > 0 {
		hours = fmt.Sprintf("%.1f", u.GPUHours)
		if u.GPUMost > 0 {
			hours += fmt.Sprintf(" of %g", u.GPUMost)
		}
		if d, err := time.ParseDuration(u.Window); err == nil {
			hours += " in the last " + dayWords(d)
		}
	}
	unused := ""
	if u.Inputs > 0 {
		unused = units.DiskWords(u.Inputs) + " of it are inputs that no job needs any more; they go by themselves"
	}
	return [][2]string{{"stored", stored}, {"unused", unused}, {"GPU hours", hours}}
}

// dayWords write a time in days where it is some.
func dayWords(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= day && d%day == 0 {
		return units.Count(int64(d/day), "day", "days")
	}
	return units.Count(int64(d.Hours()), "hour", "hours")
}
