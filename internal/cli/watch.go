package cli

import (
	"context"
	"time"

	"slipway/hubapi"
	"slipway/internal/cli/render"
	"slipway/internal/clock"
	"slipway/internal/errs"
)

// watchPatience is how long a service may be away while it is asked again and again.
const watchPatience = 90 * time.Second

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
