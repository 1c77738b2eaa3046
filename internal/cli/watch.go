package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"slipway/hubapi"
	"slipway/internal/cli/render"
	"slipway/internal/clock"
	"slipway/internal/errs"
)

// watchPatience is how long a service may be away while it is asked again and again.
const watchPatience = 90 * time.Second

// watchEvery is how often --watch looks.
const watchEvery = 5 * time.Second

// addWatch gives a command the flag --watch.
func addWatch(c *cobra.Command) {
	c.Flags().BoolP("watch", "w", false, "in a terminal show the table anew every few seconds, until Ctrl-C")
}

// watched runs a command that prints: once, or with --watch again and again.
func watched(c *cobra.Command, env Env, print func(ctx context.Context, env Env) error) error {
	ctx := c.Context()
	if on, _ := c.Flags().GetBool("watch"); !on {
		return print(ctx, env)
	}
	if c.Flags().Changed("json") {
		return usageError{fmt.Errorf("%s: --watch shows a table, and no JSON, YAML or names", c.CommandPath())}
	}
	err := render.Refresh(ctx, env.Stdout, watchEvery, func(ctx context.Context) (string, error) {
		var text strings.Builder
		env.Stdout = &text
		err := print(ctx, env)
		return text.String(), err
	})
	if ctx.Err() != nil {
		return nil // it was asked to end
	}
	return err
}

// again calls look every so often until it says that it is over. It bears that the service is away, or takes nothing
// more now, for as long as patience.
func again(ctx context.Context, every, patience time.Duration, look func() (over bool, err error)) error {
	good := time.Now()
	for {
		over, err := look()
		switch {
		case err == nil:
			good = time.Now()
		case !errs.Passing(err) || time.Since(good) > patience:
			return err
		}
		if over {
			return nil
		}
		if !clock.Sleep(ctx, every) {
			return ctx.Err()
		}
	}
}

// rowOf returns the row of a job that is looked at by itself.
func rowOf(j hubapi.Job, label string) render.Row {
	r := render.Row{
		ID: j.ID, Label: label, State: jobState(j), Progress: j.Progress, Where: j.Host, Reason: j.Waiting,
		Attempt: j.Attempt, Up: j.Up,
	}
	if j.Outcome != nil && j.State.Ended() {
		r.End = &j.Outcome.At
		r.Reason = j.Outcome.Reason
	}
	if j.Slice != nil {
		r.Where += " " + j.Slice.Name
	}
	return r
}

// rowOfPoint returns the row of a scan's point.
func rowOfPoint(e hubapi.PointEvent, label string) render.Row {
	where := e.Host
	if e.Slice != "" {
		where += " " + e.Slice
	}
	return render.Row{
		Order: e.Point, ID: e.Job, Label: label, State: string(e.State), Progress: e.Progress, Where: where,
		Reason: e.Reason, Attempt: e.Attempt,
		Up: e.Up, End: e.Ended,
	}
}
