package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"slipway/hubapi"
	"slipway/internal/cli/render"
	"slipway/internal/units"
)

// runScan submits the points of a scan and shows how they go on.
func runScan(
	ctx context.Context, env Env, notes io.Writer, client *hubapi.Client, o submitOptions, r hubapi.JobRequest,
) error {
	begun := time.Now()
	list, err := submitted(ctx, r, client.SubmitScan)
	if err != nil {
		return err
	}
	if o.detach {
		return printNewScan(env, list, o.asJSON)
	}
	scan := list.Scans[0]
	fmt.Fprintf(notes, "scan %s of %s submitted to %s; `slipway jobs watch %s` shows it again\n",
		scan.ID, units.Count(int64(scan.Points), "point", "points"), scan.Backend, scan.ID)
	labels := make(map[int]string, len(r.Points))
	for i, p := range r.Points {
		labels[i] = parameterWords(p.Parameters)
	}
	return followScan(ctx, env, notes, client, scan.ID, labels, begun)
}

// printNewScan tells of a scan that was submitted: its ID or, in JSON, it and the first of its jobs.
func printNewScan(env Env, list hubapi.Jobs, asJSON bool) error {
	if asJSON {
		return env.data(list)
	}
	_, err := fmt.Fprintln(env.Stdout, list.Scans[0].ID)
	return err
}

// followScan shows on w how a scan goes on, and ends as its worst point has.
func followScan(
	ctx context.Context, env Env, w io.Writer, client *hubapi.Client, id string, labels map[int]string, begun time.Time,
) error {
	last, err := watchScan(ctx, w, client, id, labels)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintf(env.Stderr, "\nstopped watching; scan %s runs on\n  -> `slipway jobs watch %s` shows it, `slipway jobs cancel %s` ends it\n", id, id, id)
		return exitCode(exitInterrupted)
	case err != nil:
		return err
	}
	return endScan(env, w, last, time.Since(begun))
}

// watchScan shows how a scan goes on, until all its points have ended. The labels tell their parameters, by their
// numbers.
func watchScan(
	ctx context.Context, w io.Writer, client *hubapi.Client, id string, labels map[int]string,
) (last hubapi.Scan, err error) {
	b := render.NewBoard("scan " + id)
	err = render.Watch(ctx, w, b, "scan", func(ctx context.Context) error {
		return client.WatchScan(ctx, id, func(e hubapi.PointEvent) error {
			label := strconv.Itoa(e.Point)
			if words := labels[e.Point]; words != "" {
				label += " " + words
			}
			b.Set(rowOfPoint(e, label))
			return nil
		}, func(s hubapi.Scan) error {
			last = s
			words := stateWords(s)
			if s.Waiting != "" && s.States[hubapi.JobRunning] == 0 && !s.Ended() {
				words += ": " + s.Waiting
			}
			b.Sum(words, s.Points)
			return nil
		})
	})
	return last, err
}

// endScan tells how a scan has ended, and ends as its worst point has.
func endScan(env Env, w io.Writer, s hubapi.Scan, took time.Duration) error {
	words := fmt.Sprintf("scan %s has ended: %s", s.ID, stateWords(s))
	if took > 0 {
		words += fmt.Sprintf(", %.1f s", took.Seconds())
	}
	fmt.Fprintln(w, words)
	if s.States[hubapi.JobDone] == s.Points {
		fmt.Fprintf(w, "  -> %s\n", render.NextSteps(s.ID))
		return nil
	}
	if s.Failure != "" {
		fmt.Fprintf(env.Stderr, "slipway: the first that failed: %s\n", render.Printable(s.Failure))
	}
	fmt.Fprintf(env.Stderr, "  -> `slipway jobs results %s` lists the points, `slipway jobs logs %s --point N` prints the output of one, `slipway jobs retry %s` tries again what has failed\n", s.ID, s.ID, s.ID)
	return exitCode(exitError)
}

// stateWords counts the points of a scan by their states.
func stateWords(s hubapi.Scan) string {
	var words []string
	for _, state := range hubapi.Order() {
		n := s.States[state]
		if n == 0 {
			continue
		}
		word := units.Grouped(int64(n)) + " " + string(state)
		if state == hubapi.JobPending && s.Held > 0 {
			word += " (" + units.Grouped(int64(s.Held)) + " held)"
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}
