package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"slipway/hubapi"
	"slipway/internal/cli/render"
)

// How often jobs are looked at that are goingOn: one by itself, and all that there are.
const (
	jobLookEvery  = time.Second
	jobsLookEvery = 2 * time.Second
)

// jobWatchCommand is `slipway jobs watch`.
func jobWatchCommand(env Env) *cobra.Command {
	return &cobra.Command{
		Use: "watch [ID]", Short: "Show how a job or scan goes on, or all that goes on, until it has ended",
		Example: "  slipway jobs watch\n" +
			"  slipway jobs watch scan-lo6t2sx73rrnja3r",
		Args: atMostOne,
		Long: "Show how a job, a scan, or without an ID all that goes on, goes on: in a terminal as a table that changes in place (what has\n" +
			"failed and what runs first), else in lines. Ctrl-C stops watching; the jobs run on.\n\n" +
			"Exit codes: the job's own; of a scan 0 when all its points are done, else 1; without an ID 1 when anything has failed\n" +
			"meanwhile; 130 after Ctrl-C.",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return runWatchAll(c.Context(), env)
			}
			return runWatch(c.Context(), env, args[0])
		},
	}
}

func runWatch(ctx context.Context, env Env, id string) error {
	client, id, err := connectForID(ctx, env, id)
	if err != nil {
		return err
	}
	if ofScan(id) {
		list, err := client.Points(ctx, id)
		if err != nil {
			return err
		}
		labels := make(map[int]string, len(list.Jobs))
		for _, j := range list.Jobs {
			labels[j.Point] = parameterWords(j.Parameters)
		}
		return followScan(ctx, env, env.Stdout, client, id, labels, time.Now())
	}
	b := render.NewBoard("job " + id)
	err = render.Watch(ctx, env.Stdout, b, id, func(ctx context.Context) error {
		return again(ctx, jobLookEvery, watchPatience, func() (bool, error) {
			j, err := client.Job(ctx, id)
			if err != nil {
				return false, err
			}
			b.Name("job " + id + " " + j.Name)
			b.Set(rowOf(j, j.Name))
			b.Sum(jobWords(j), 1)
			return j.State.Ended(), nil
		})
	})
	if ctx.Err() != nil {
		return watchingEnded(ctx, env, id, err)
	}
	if err != nil {
		return err
	}
	return exitAsJob(ctx, env, env.Stdout, client, id)
}

// jobWords say how far a job is.
func jobWords(j hubapi.Job) string {
	words := jobState(j)
	if p := j.Progress; p != nil && p.Of > 0 && !j.State.Ended() {
		words += fmt.Sprintf(", %.0f%%", 100*p.Done/p.Of)
	}
	if j.Waiting != "" {
		words += ": " + j.Waiting
	}
	return words
}

func runWatchAll(ctx context.Context, env Env) error {
	client, err := connect(env)
	if err != nil {
		return err
	}
	me, err := client.Me(ctx)
	if err != nil {
		return err
	}
	b, w := render.NewBoard("your jobs and scans"), goingOn{}
	err = render.Watch(ctx, env.Stdout, b, "jobs", func(ctx context.Context) error {
		return again(ctx, jobsLookEvery, watchPatience, func() (bool, error) {
			list, err := jobsOf(ctx, client, me.User)
			if err != nil {
				return false, err
			}
			return w.look(b, list), nil
		})
	})
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(env.Stderr, "\nstopped watching; the jobs run on\n  -> `slipway jobs` lists them")
		return exitCode(exitInterrupted)
	case err != nil:
		return err
	case len(w) == 0:
		fmt.Fprintln(env.Stdout, "Nothing goes on. `slipway jobs` lists what has ended.")
	}
	for _, state := range w {
		if state == string(hubapi.JobFailed) {
			return exitCode(exitError)
		}
	}
	return nil
}

// goingOn are the jobs and scans that went on when they were first seen, with how they stand.
type goingOn map[string]string

// look puts them on a board, and says whether all of them have ended.
func (w goingOn) look(b *render.Board, list hubapi.Jobs) (over bool) {
	over = true
	states := map[hubapi.State]int{}
	for _, j := range list.Jobs {
		if _, known := w[j.ID]; known || !j.State.Ended() {
			w[j.ID] = string(j.State)
			states[j.State]++
			over = over && j.State.Ended()
			b.Set(rowOf(j, j.ID+" "+j.Name))
		}
	}
	for _, s := range list.Scans {
		if _, known := w[s.ID]; known || !s.Ended() {
			word := s.Word()
			if s.Ended() && s.States[hubapi.JobFailed] > 0 {
				word = string(hubapi.JobFailed)
			}
			w[s.ID] = word
			states[stateOfWord(word)]++
			over = over && s.Ended()
			ended := float64(s.Points - s.States[hubapi.JobPending] - s.States[hubapi.JobRunning])
			b.Set(render.Row{
				ID: s.ID, Label: s.ID + " " + s.Name, State: word,
				Progress: &hubapi.JobProgress{Done: ended, Of: float64(s.Points)}, Reason: stateWords(s),
			})
		}
	}
	b.Sum(stateWords(hubapi.Scan{States: states}), len(w))
	return over
}

// stateOfWord returns the state that a scan's word counts as.
func stateOfWord(word string) hubapi.State {
	if word == "held" {
		return hubapi.JobPending
	}
	return hubapi.State(word)
}
