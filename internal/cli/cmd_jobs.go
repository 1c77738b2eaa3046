package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"slipway/hubapi"
	"slipway/internal/cli/render"
	"slipway/internal/units"
)

// jobsCommand is `slipway jobs`.
func jobsCommand(env Env) *cobra.Command {
	asJSON, points, filter := false, false, hubapi.JobFilter{}
	c := &cobra.Command{
		Use:   "jobs",
		Short: "List your jobs and scans; watch, show, explain, read, fetch, hold, retry, cancel or remove them",
		Args:  nothingElse,
		Long: "List your jobs and scans. A scan is one row, with its points counted by their states; `slipway jobs show SCAN` lists them.\n" +
			"Where a command below takes an ID, it takes a name that one of your jobs and scans has, too.",
		Example: "  slipway jobs list --state failed --since 2d\n  slipway jobs list --name fit",
		RunE: func(c *cobra.Command, _ []string) error {
			return watched(c, env, func(ctx context.Context, env Env) error {
				return runJobs(ctx, env, filter, points, asJSON)
			})
		},
	}
	addWatch(c)
	c.PersistentFlags().BoolVar(&asJSON, "json", false, "print the API's JSON")
	c.Flags().BoolVar(&points, "points", false, "a row for each point of a scan, in place of one for all")
	c.Flags().StringVar(&filter.State, "state", "", "only jobs in these states, with commas between: pending, running, done, failed, canceled; and scans with a point in one")
	c.Flags().StringVar(
		&filter.Name, "name", "", "only jobs and scans whose name contains this, or whose ID begins with it",
	)
	c.Flags().StringVar(
		&filter.Since, "since", "", "only jobs and scans submitted since then: 90m, 2d or 1w ago, or 2026-11-20",
	)
	addList(c)
	show := &cobra.Command{
		Use: "show ID", Short: "Show one job, or a scan and its points", Args: exactly(1, "the ID of a job or scan"),
		Example: "  slipway jobs show j-6yqx7mavk3wcs2dh",
		RunE: func(c *cobra.Command, args []string) error {
			return watched(c, env, func(ctx context.Context, env Env) error {
				return runJobShow(ctx, env, args[0], asJSON)
			})
		},
	}
	addWatch(show)
	c.AddCommand(show, &cobra.Command{
		Use: "why ID", Short: "Explain what a job, or the first of a scan, waits for",
		Example: "  slipway jobs why j-6yqx7mavk3wcs2dh",
		Args:    exactly(1, "the ID of a job or scan"),
		Long: "Explain what a job, or the first of a scan that waits, waits for: what it asks for, how many of the batch system's slots\n" +
			"each of its requirements excludes, and how many it alone excludes.",
		RunE: func(c *cobra.Command, args []string) error { return runJobWhy(c.Context(), env, args[0], asJSON) },
	})
	c.AddCommand(jobReadCommands(env, &asJSON)...)
	c.AddCommand(jobChangeCommands(env, &asJSON)...)
	return c
}

func runJobs(ctx context.Context, env Env, filter hubapi.JobFilter, points, asJSON bool) error {
	client, err := connect(env)
	if err != nil {
		return err
	}
	list := hubapi.Jobs{}
	if points {
		list.Jobs, err = client.Jobs(ctx, filter)
	} else {
		list, err = client.JobsAndScans(ctx, filter)
	}
	if err != nil {
		return err
	}
	if asJSON {
		return env.data(list)
	}
	head := []string{"ID", "USER", "NAME", "STATE", "EXIT", "BACKEND", "ENVIRONMENT", "SUBMITTED", "REMARK"}
	none := "No jobs. %%grid in a notebook or `slipway submit` makes one."
	if filter != (hubapi.JobFilter{}) {
		none = "No jobs match. `slipway jobs` lists all."
	}
	if env.wide() {
		head = append(head, "CPUS", "MEMORY", "SLICE", "WHERE")
	}
	return render.Table(env.Stdout, head, jobRows(list, time.Now(), env.wide()), none)
}

// jobRows returns a row for each job and scan, the newest first: that is the one that is looked for. A wide one says
// also what a job asks for, and where it runs.
func jobRows(list hubapi.Jobs, now time.Time, wide bool) [][]string {
	type row struct {
		at    time.Time
		scan  string // of which it is the point
		point int
		cells []string
	}
	var rows []row
	for _, j := range list.Jobs {
		cells := []string{
			j.ID, j.User, j.Name, stateAndTry(j), exitOf(j), j.Backend, render.ShortDigest(j.Environment),
			render.Ago(j.Created, now), jobRemark(j),
		}
		if wide {
			cells = append(
				cells, fmt.Sprint(j.CPUs), units.MemoryText(j.Memory), heldWord(j.Workload), whereWord(j.Workload),
			)
		}
		rows = append(rows, row{j.Created, j.Scan, j.Point, cells})
	}
	for _, s := range list.Scans {
		rows = append(rows, row{s.Created, "", 0, []string{
			s.ID, s.User, s.Name, s.Word(), "", s.Backend, render.ShortDigest(s.Environment),
			render.Ago(s.Created, now), scanRemark(s),
		}})
	}
	slices.Reverse(rows)
	slices.SortStableFunc(rows, func(a, b row) int {
		return cmp.Or(b.at.Compare(a.at), cmp.Compare(a.scan, b.scan), a.point-b.point)
	})
	var out [][]string
	for _, r := range rows {
		out = append(out, r.cells)
	}
	return out
}

// jobState is a job's state as people read it: one that is held, by its owner or by the batch system, does not merely
// wait or run.
func jobState(j hubapi.Job) string {
	if j.Held && j.State == hubapi.JobPending || !j.State.Ended() && strings.HasPrefix(j.Waiting, hubapi.HeldAt) {
		return "held"
	}
	return string(j.State)
}

// stateAndTry also says which try a job is at, if it is not the first.
func stateAndTry(j hubapi.Job) string {
	if j.Attempt > 1 {
		return fmt.Sprintf("%s (try %d)", jobState(j), j.Attempt)
	}
	return jobState(j)
}

func exitOf(j hubapi.Job) string {
	if j.Outcome == nil {
		return ""
	}
	return fmt.Sprint(j.Outcome.ExitCode)
}

// jobRemark is a job's remark; of a point it says which.
func jobRemark(j hubapi.Job) string {
	words := []string{}
	if j.Scan != "" {
		words = append(words, fmt.Sprintf("point %d of %s (%s)", j.Point, j.Scan, parameterWords(j.Parameters)))
	}
	if r := remark(j.Workload); r != "" {
		words = append(words, r)
	}
	return strings.Join(words, ": ")
}

func parameterWords(parameters map[string]string) string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		words = append(words, name+"="+parameters[name])
	}
	return strings.Join(words, " ")
}

// scanRemark counts a scan's points, and says why the first waits or what the first to fail failed of.
func scanRemark(s hubapi.Scan) string {
	words := units.Count(int64(s.Points), "point", "points") + ": " + stateWords(s)
	why := cmp.Or(s.Failure, s.Waiting)
	if why != "" {
		words += "; " + why
	}
	return words
}
