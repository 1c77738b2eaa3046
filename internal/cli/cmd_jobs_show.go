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

func runJobShow(ctx context.Context, env Env, id string, asJSON bool) error {
	client, id, err := connectForID(ctx, env, id)
	if err != nil {
		return err
	}
	if ofScan(id) {
		return showScan(ctx, env, client, id, asJSON)
	}
	j, err := client.Job(ctx, id)
	if err != nil {
		return err
	}
	if asJSON {
		return env.data(j)
	}
	return render.Pairs(env.Stdout, jobPairs(j))
}

func jobPairs(j hubapi.Job) [][2]string {
	pairs := append(pairsOf(j.Workload), [][2]string{
		{"state", jobState(j)}, {"environment", j.Environment}, {"session", j.Session},
		{"command", commandWords(j.Argv)}, {"time limit", j.TimeLimit},
	}...)
	if j.Scan != "" {
		pairs = append(
			pairs, [2]string{"scan", j.Scan}, [2]string{"point", strconv.Itoa(j.Point)},
			[2]string{"parameters", parameterWords(j.Parameters)},
		)
	}
	if j.Requeued > 0 {
		pairs = append(pairs, [2]string{"back in line", fmt.Sprintf("%dx", j.Requeued)})
	}
	return append(append(pairs, tryPairs(j)...), usePairs(j)...)
}

// tryPairs tell of a job's tries and of what it was submitted with that most jobs are not.
func tryPairs(j hubapi.Job) [][2]string {
	pairs := [][2]string{
		{"waits for", strings.Join(j.After, " ")}, {"must leave", strings.Join(j.Out, " ")},
		{"submitted like", j.Origin},
	}
	if j.Attempt > 1 || j.Retries > 0 {
		words := strconv.Itoa(j.Attempt)
		if j.Retries > 0 {
			words += "; tried again by itself up to " + units.Count(int64(j.Retries), "time", "times")
		}
		pairs = append(pairs, [2]string{"try", words})
	}
	for i, o := range j.Attempts {
		pairs = append(pairs, [2]string{
			fmt.Sprintf("try %d ended", j.Attempt-len(j.Attempts)+i),
			fmt.Sprintf("%s: %s", o.At.Local().Format(time.DateTime), o.Reason),
		})
	}
	if j.Priority != 0 {
		pairs = append(pairs, [2]string{"priority", strconv.Itoa(j.Priority)})
	}
	if p := j.Progress; p != nil {
		words := fmt.Sprintf("%g", p.Done)
		if p.Of > 0 {
			words += fmt.Sprintf(" of %g (%.0f%%)", p.Of, 100*p.Done/p.Of)
		}
		pairs = append(pairs, [2]string{"progress", strings.TrimSpace(words + " " + p.Text)})
	}
	return pairs
}

// usePairs tell what a job's last try has used, beside what pairsOf does, and until when it is kept.
func usePairs(j hubapi.Job) (pairs [][2]string) {
	if o := j.Outcome; o != nil {
		pairs = append(pairs, [2]string{"cause", string(o.Cause)})
		if o.Signal > 0 {
			pairs = append(pairs, [2]string{"signal", strconv.Itoa(o.Signal)})
		}
		if o.Wall > 0 {
			pairs = append(pairs, [2]string{"wall time", fmt.Sprintf("%.1f s", o.Wall)})
		}
		if g := o.GPU; g != nil {
			words := fmt.Sprintf("busy %.0f%%, memory at most %s", 100*g.Busy, units.MemoryWords(g.Memory))
			if g.Energy > 0 {
				words += fmt.Sprintf(", %.0f J", g.Energy)
			}
			pairs = append(pairs, [2]string{"gpu used", words})
		}
	}
	if j.Expires != nil {
		pairs = append(pairs, [2]string{"removed", j.Expires.Local().Format(time.DateTime)})
	}
	return pairs
}

// commandWords tells a command; empty where it is not the caller's to read.
func commandWords(argv []string) string {
	if len(argv) == 0 {
		return ""
	}
	return fmt.Sprintf("%q", argv)
}

func showScan(ctx context.Context, env Env, client *hubapi.Client, id string, asJSON bool) error {
	list, err := client.Points(ctx, id)
	if err != nil {
		return err
	}
	if asJSON {
		return env.data(list)
	}
	for _, s := range list.Scans {
		if err := render.Pairs(env.Stdout, scanPairs(s)); err != nil {
			return err
		}
	}
	fmt.Fprintln(env.Stdout)
	return printPoints(env.Stdout, list.Jobs)
}

func scanPairs(s hubapi.Scan) [][2]string {
	return [][2]string{
		{"id", s.ID}, {"user", s.User}, {"name", s.Name}, {"backend", s.Backend}, {"environment", s.Environment},
		{"points", units.Grouped(int64(s.Points)) + ": " + stateWords(s)}, {"waits", s.Waiting},
		{"first failure", s.Failure},
	}
}

// printPoints prints the points of a scan with a column for each of its parameters.
func printPoints(w io.Writer, jobs []hubapi.Job) error {
	names := hubapi.ParameterNames(jobs)
	var rows [][]string
	for _, j := range jobs {
		row := []string{strconv.Itoa(j.Point)}
		for _, name := range names {
			row = append(row, j.Parameters[name])
		}
		rows = append(rows, append(row, jobState(j), exitOf(j), j.Host, j.ID, remark(j.Workload)))
	}
	head := append([]string{"POINT"}, names...)
	return render.Table(w, append(head, "STATE", "EXIT", "HOST", "JOB", "REMARK"), rows, "No points are left.")
}
