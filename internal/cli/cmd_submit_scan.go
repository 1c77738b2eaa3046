package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"slipway/hubapi"
)

// runScan submits the points of a scan and shows how they go on.
func runScan(ctx context.Context, env Env, client *hubapi.Client, o submitOptions, r hubapi.JobRequest) error {
	begun := time.Now()
	jobs, err := client.SubmitScan(ctx, r)
	if err != nil {
		return err
	}
	if len(jobs) == 0 {
		return errors.New("the service has taken the scan and told no job of it")
	}
	scan := jobs[0].Scan
	if o.detach && o.asJSON {
		return printJSON(env.Stdout, hubapi.Jobs{Jobs: jobs})
	}
	if o.detach {
		_, err := fmt.Fprintln(env.Stdout, scan)
		return err
	}
	fmt.Fprintf(env.Stderr, "scan %s of %s submitted to %s; `slipway jobs show %s` lists them\n",
		scan, count(int64(len(jobs)), "point", "points"), jobs[0].Backend, scan)
	last, err := watchScan(ctx, env.Stderr, client, scan)
	if ctx.Err() != nil {
		fmt.Fprintf(env.Stderr, "\nstopped watching; scan %s runs on\n  -> `slipway jobs show %s` shows it, `slipway jobs cancel %s` ends it\n", scan, scan, scan)
		return exitCode(130)
	}
	if err != nil {
		return err
	}
	return endScan(env, last, time.Since(begun))
}

// scanEvery is how often a scan that goes on is told of.
const scanEvery = 5 * time.Second

// watchScan tells how a scan goes on, until all its points have ended.
func watchScan(ctx context.Context, w io.Writer, client *hubapi.Client, id string) (last hubapi.Scan, err error) {
	told, said := time.Time{}, ""
	err = client.FollowScan(ctx, id, func(s hubapi.Scan) error {
		last = s
		words := stateWords(s)
		if words == said || s.Ended() || time.Since(told) < scanEvery {
			return nil
		}
		told, said = time.Now(), words
		if s.Waiting != "" && s.States[hubapi.JobRunning] == 0 {
			words += ": " + s.Waiting
		}
		_, err := fmt.Fprintf(w, "scan: %s\n", printable(words))
		return err
	})
	return last, err
}

// endScan tells how a scan has ended, and ends as its worst point has.
func endScan(env Env, s hubapi.Scan, took time.Duration) error {
	fmt.Fprintf(env.Stderr, "scan %s has ended: %s, %.1f s\n", s.ID, stateWords(s), took.Seconds())
	if s.States[hubapi.JobDone] == s.Points {
		return nil
	}
	if s.Failure != "" {
		fmt.Fprintf(env.Stderr, "slipway: the first that failed: %s\n", printable(s.Failure))
	}
	fmt.Fprintf(env.Stderr, "  -> `slipway jobs show %s` lists the points, `slipway jobs logs JOB` prints the output of one\n", s.ID)
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
		word := grouped(int64(n)) + " " + string(state)
		if state == hubapi.JobPending && s.Held > 0 {
			word += " (" + grouped(int64(s.Held)) + " held)"
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}
