package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"slipway/hubapi"
	"slipway/internal/errs"
)

// jobRemoveCommand is `slipway jobs rm`.
func jobRemoveCommand(env Env, asJSON *bool) *cobra.Command {
	ended, older := false, ""
	c := &cobra.Command{
		Use: "rm ID...", Short: "Remove records, output and files of jobs that have ended, or of a scan's",
		Long: "Remove the records, output and files of jobs that have ended; of a scan, those of its points that have. With --ended all your\n" +
			"jobs and scans that have come to their end are removed, with --older those that did so long ago. It does not ask.",
		Example: "  slipway jobs rm j-6yqx7mavk3wcs2dh scan-lo6t2sx73rrnja3r\n  slipway jobs rm --older 7d",
		Args: func(_ *cobra.Command, args []string) error {
			switch all := ended || older != ""; {
			case all && len(args) > 0:
				return usageError{errors.New("--ended and --older choose what is removed: leave out the IDs")}
			case !all && len(args) == 0:
				return usageError{errors.New("slipway jobs rm needs the IDs of jobs or scans, or --ended; see `slipway jobs rm --help`")}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return runRemoveEnded(c.Context(), env, older, *asJSON)
			}
			return runJobRemove(c.Context(), env, args, *asJSON)
		},
	}
	c.Flags().BoolVar(&ended, "ended", false, "all of your jobs and scans that have ended")
	c.Flags().StringVar(&older, "older", "", "all that ended longer ago than this, such as 7d or 12h")
	return c
}

// runJobRemove removes each, and goes on where one is refused.
func runJobRemove(ctx context.Context, env Env, ids []string, asJSON bool) error {
	var all []error
	for _, id := range ids {
		all = append(all, removeOne(ctx, env, id, asJSON))
	}
	return errors.Join(all...)
}

func removeOne(ctx context.Context, env Env, id string, asJSON bool) error {
	client, id, err := connectForID(ctx, env, id)
	if err != nil {
		return err
	}
	if !ofScan(id) {
		if err = client.RemoveJob(ctx, id); err == nil && !asJSON {
			_, err = fmt.Fprintf(env.Stdout, "%s is removed\n", id)
		}
		return err
	}
	done, err := client.RemoveScan(ctx, id)
	if err != nil {
		return err
	}
	if asJSON {
		return env.data(done)
	}
	printChanged(env.Stdout, done, "removed", "none of its points has ended")
	return nil
}

func runRemoveEnded(ctx context.Context, env Env, older string, asJSON bool) error {
	age, err := parseAge(older)
	if err != nil {
		return err
	}
	client, err := connect(env)
	if err != nil {
		return err
	}
	ids, err := endedBefore(ctx, client, time.Now().Add(-age))
	if err != nil {
		return err
	}
	if len(ids) == 0 && !asJSON {
		_, err := fmt.Fprintln(env.Stdout, "Nothing to remove.")
		return err
	}
	return runJobRemove(ctx, env, ids, asJSON)
}

// parseAge reads a time such as 7d or 12h.
func parseAge(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseFloat(days, 64); err == nil && n >= 0 && n < 36500 {
			return time.Duration(n * float64(24*time.Hour)), nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return d, nil
	}
	return 0, errs.Bad("--older", text, "a time such as 7d or 12h")
}

// endedBefore returns the IDs of the caller's own jobs and scans that came to their end before then.
func endedBefore(ctx context.Context, client *hubapi.Client, then time.Time) (ids []string, err error) {
	me, err := client.Me(ctx)
	if err != nil {
		return nil, err
	}
	list, err := jobsOf(ctx, client, me.User)
	if err != nil {
		return nil, err
	}
	for _, j := range list.Jobs {
		if endedAt(j).Before(then) {
			ids = append(ids, j.ID)
		}
	}
	for _, s := range list.Scans {
		if !s.Ended() || s.Created.After(then) {
			continue
		}
		points, err := client.Points(ctx, s.ID)
		if err != nil {
			return nil, err
		}
		last := time.Time{}
		for _, j := range points.Jobs {
			if at := endedAt(j); at.After(last) {
				last = at
			}
		}
		if last.Before(then) {
			ids = append(ids, s.ID)
		}
	}
	return ids, nil
}

// jobsOf returns the jobs and scans of one user: an administrator is told everybody's.
func jobsOf(ctx context.Context, client *hubapi.Client, user string) (hubapi.Jobs, error) {
	list, err := client.JobsAndScans(ctx, hubapi.JobFilter{})
	list.Jobs = slices.DeleteFunc(list.Jobs, func(j hubapi.Job) bool { return j.User != user })
	list.Scans = slices.DeleteFunc(list.Scans, func(s hubapi.Scan) bool { return s.User != user })
	return list, err
}

// endedAt is when a job ended; far in the future while it has not.
func endedAt(j hubapi.Job) time.Time {
	switch {
	case !j.State.Ended():
		return time.Now().AddDate(1, 0, 0)
	case j.Outcome == nil:
		return j.Since
	default:
		return j.Outcome.At
	}
}
