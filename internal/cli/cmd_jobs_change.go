package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"slipway/hubapi"
	"slipway/internal/cli/render"
	"slipway/internal/units"
)

// jobChange is one way to change a job, or every job of a scan.
type jobChange struct {
	use, short, long string
	words            string // what a job then is
	none             string // why there was nothing to do for a scan
	one              func(*hubapi.Client, context.Context, string) (hubapi.Job, error)
	all              func(*hubapi.Client, context.Context, string) (hubapi.ScanChange, error)
}

// jobChanges are all of them but the removal, after which there is no job to tell of.
func jobChanges() []jobChange {
	return []jobChange{{
		"cancel ID", "Cancel a job, or all of a scan", "", "being canceled", "all its points have ended",
		(*hubapi.Client).CancelJob, (*hubapi.Client).CancelScan,
	}, {
		"hold ID", "Have a job, or all of a scan, not start until released",
		"Have a job that waits, or those of a scan that do, not start until `slipway jobs release`. One that runs cannot be held:\n" +
			"`slipway jobs requeue` puts it back in line, `slipway jobs cancel` ends it.",
		"held", "all that wait of its points are held, or none does", (*hubapi.Client).HoldJob,
		(*hubapi.Client).HoldScan,
	}, {
		"release ID", "Release a job, or those of a scan, that is held", "", "released", "none of its points is held",
		(*hubapi.Client).ReleaseJob, (*hubapi.Client).ReleaseScan,
	}, {
		"requeue ID", "Put a job that runs, or those of a scan, back in line",
		"Put a job that runs, or those of a scan that do, back in line. It is ended where it runs and begins anew when its turn comes;\n" +
			"what it has written nowhere else, such as to a home that is mounted there, is lost.",
		"being requeued", "none of its points runs", (*hubapi.Client).RequeueJob, (*hubapi.Client).RequeueScan,
	}}
}

// jobChangeCommands are the commands that change jobs.
func jobChangeCommands(env Env, asJSON *bool) []*cobra.Command {
	commands := []*cobra.Command{
		jobRemoveCommand(env, asJSON), jobRetryCommand(env, asJSON), jobResubmitCommand(env, asJSON),
	}
	for _, change := range jobChanges() {
		commands = append(commands, &cobra.Command{
			Use: change.use, Short: change.short, Long: change.long, Args: exactly(1, "the ID of a job or scan"),
			Example: "  slipway jobs " + strings.Fields(change.use)[0] + " j-6yqx7mavk3wcs2dh",
			RunE: func(c *cobra.Command, args []string) error {
				return runJobChange(c.Context(), env, change, args[0], *asJSON)
			},
		})
	}
	return commands
}

func runJobChange(ctx context.Context, env Env, change jobChange, id string, asJSON bool) error {
	client, id, err := connectForID(ctx, env, id)
	if err != nil {
		return err
	}
	if ofScan(id) {
		done, err := change.all(client, ctx, id)
		if err != nil {
			return err
		}
		return printScanChange(env, done, change.words, change.none, asJSON)
	}
	j, err := change.one(client, ctx, id)
	switch {
	case err != nil:
		return err
	case asJSON:
		return env.data(j)
	case j.State.Ended():
		_, err = fmt.Fprintf(env.Stdout, "%s has ended already: %s\n", j.ID, j.State)
	default:
		_, err = fmt.Fprintf(env.Stdout, "%s is %s (it is %s)\n", j.ID, change.words, j.State)
	}
	return err
}

// printScanChange says to how many points of a scan something was done, and how it stands then.
func printScanChange(env Env, done hubapi.ScanChange, words, none string, asJSON bool) error {
	if asJSON {
		return env.data(done)
	}
	printChanged(env.Stdout, done, words, none)
	if now := stateWords(done.Scan); now != "" {
		fmt.Fprintf(env.Stdout, "now: %s\n", now)
	}
	return nil
}

// printChanged says to how many points of a scan something was done, and why not to the others.
func printChanged(w io.Writer, done hubapi.ScanChange, words, none string) {
	if done.Changed == 0 && done.Refused == 0 {
		fmt.Fprintf(w, "%s: nothing to do: %s\n", done.Scan.ID, none)
	} else {
		fmt.Fprintf(w, "%s: %s %s\n", done.Scan.ID, units.Count(int64(done.Changed), "point", "points"), words)
	}
	if done.Refused > 0 {
		fmt.Fprintf(w, "not %s: %s\n", units.Count(int64(done.Refused), "point", "points"), render.Printable(done.Why))
	}
}
