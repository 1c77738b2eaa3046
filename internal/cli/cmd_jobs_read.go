package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"slipway/hubapi"
	"slipway/internal/cli/render"
	"slipway/internal/errs"
)

// jobReadCommands read what a job has written.
func jobReadCommands(env Env, asJSON *bool) []*cobra.Command {
	into := ""
	o := logOptions{point: -1, tail: -1}
	logs := &cobra.Command{
		Use: "logs ID", Short: "Print the output of a job, or with --point of one of a scan's",
		Example: "  slipway jobs logs -f j-6yqx7mavk3wcs2dh\n" +
			"  slipway jobs logs scan-lo6t2sx73rrnja3r --point 3 --tail 20",
		Args: exactly(1, "a job's ID"),
		Long: "Print the output of a job, or with --point of one of a scan's. With --follow the exit code is the job's.",
		RunE: func(c *cobra.Command, args []string) error { return runJobLogs(c.Context(), env, args[0], o) },
	}
	logs.Flags().BoolVarP(&o.follow, "follow", "f", false, "go on until the job has ended, then exit with its code")
	logs.Flags().IntVar(&o.point, "point", -1, "of a scan, the point with this number")
	logs.Flags().IntVar(&o.tail, "tail", -1, "only so many lines, the last that there are")
	logs.Flags().BoolVar(
		&o.raw, "raw", false,
		"every byte also to a terminal, which otherwise gets no colors and no other escape sequences",
	)
	files := &cobra.Command{
		Use: "files ID", Short: "List the files that a job has left; with --into fetch them",
		Example: "  slipway jobs files j-6yqx7mavk3wcs2dh --into results",
		Args:    exactly(1, "a job's ID"),
		RunE: func(c *cobra.Command, args []string) error {
			return runJobFiles(c.Context(), env, args[0], into, *asJSON)
		},
	}
	files.Flags().StringVar(&into, "into", "", "fetch the files into this directory")
	return []*cobra.Command{
		logs, files, jobWatchCommand(env), jobResultsCommand(env, asJSON), jobUsageCommand(env, asJSON),
	}
}

// ofScan tells a scan from a job by its ID.
func ofScan(id string) bool { return strings.HasPrefix(id, "scan-") }

// connectForID connects for what jobs and scans have. A word that is no ID is the name of one of the caller's.
func connectForID(ctx context.Context, env Env, word string) (client *hubapi.Client, id string, err error) {
	if strings.TrimSpace(word) == "" {
		return nil, "", errs.Bad("ID", word, "the ID or the name of a job or scan: `slipway jobs` lists them")
	}
	if client, err = connect(env); err != nil {
		return nil, "", err
	}
	if ofScan(word) || strings.HasPrefix(word, "j-") || word == hubapi.Self {
		return client, word, nil
	}
	id, err = jobNamed(ctx, client, word)
	return client, id, err
}

// jobNamed returns the ID of the one job or scan of the caller's that has a name.
func jobNamed(ctx context.Context, client *hubapi.Client, name string) (string, error) {
	me, err := client.Me(ctx)
	if err != nil {
		return "", err
	}
	list, err := jobsOf(ctx, client, me.User)
	if err != nil {
		return "", err
	}
	var found []string
	var newest time.Time
	latest := ""
	var several []errs.Detail
	add := func(id, called, state string, created time.Time) {
		if called == name {
			found = append(found, id)
			if created.After(newest) {
				newest, latest = created, id
			}
			several = append(several, errs.Detail{What: id + ": " + state + ", " + render.Ago(created, time.Now())})
		}
	}
	for _, j := range list.Jobs {
		add(j.ID, j.Name, jobState(j), j.Created)
	}
	for _, s := range list.Scans {
		add(s.ID, s.Name, s.Word(), s.Created)
	}
	switch len(found) {
	case 0:
		return "", errs.New(errs.NotFound, "there is no job or scan %.80q of yours", name).With("`slipway jobs` lists them")
	case 1:
		return found[0], nil
	}
	return "", errs.New(errs.Conflict, "%d of your jobs and scans are called %.80q", len(found), name).Naming(several).
		With("name one by its ID; the newest is " + latest)
}

// connectForJob connects for what only a single job has.
func connectForJob(ctx context.Context, env Env, word string) (*hubapi.Client, string, error) {
	client, id, err := connectForID(ctx, env, word)
	if err == nil && ofScan(id) {
		err = errs.New(errs.Invalid, "%s is a scan, and what is asked for is a job's", word).
			With("name one of its jobs, as `slipway jobs show " + id + "` lists them")
	}
	return client, id, err
}

// logOptions are the flags of `slipway jobs logs`.
type logOptions struct {
	follow, raw bool
	point, tail int // -1: not given
}

func runJobLogs(ctx context.Context, env Env, id string, o logOptions) error {
	client, id, err := connectForID(ctx, env, id)
	if err != nil {
		return err
	}
	switch {
	case o.point >= 0 && !ofScan(id):
		return usageError{errors.New("--point is of a scan; a job has one output")}
	case o.follow && o.tail >= 0:
		return usageError{errors.New("--tail prints what is there, and --follow goes on with all: give one of them")}
	case ofScan(id) && o.point < 0:
		return usageError{fmt.Errorf("each point of a scan has an output of its own: give --point N, as `slipway jobs results %s` lists them", id)}
	}
	if ofScan(id) {
		if id, err = pointOf(ctx, client, id, o.point); err != nil {
			return err
		}
	}
	out, done := render.ForTerminal(env.Stdout, o.raw)
	defer done()
	if o.tail >= 0 {
		text, err := client.JobLogTail(ctx, id, o.tail)
		if err == nil {
			_, err = io.WriteString(out, text)
		}
		return err
	}
	if err := client.JobLog(ctx, id, 0, o.follow, out); err != nil || !o.follow {
		return err
	}
	return exitAsJob(ctx, env, env.Stderr, client, id)
}

// pointOf returns the job of a scan's point.
func pointOf(ctx context.Context, client *hubapi.Client, scan string, point int) (string, error) {
	list, err := client.Points(ctx, scan)
	if err != nil {
		return "", err
	}
	for _, j := range list.Jobs {
		if j.Point == point {
			return j.ID, nil
		}
	}
	return "", errs.New(errs.NotFound, "%s has no point %d", scan, point).With("`slipway jobs results " + scan + "` lists its points")
}

// exitAsJob waits for a job's end, tells of it on notes, and passes its exit code on.
func exitAsJob(ctx context.Context, env Env, notes io.Writer, client *hubapi.Client, id string) error {
	if err := client.JobEvents(ctx, id, func(hubapi.Event) error { return nil }); err != nil {
		return err
	}
	j, err := client.Job(ctx, id)
	if err != nil {
		return err
	}
	if files, err := client.JobFiles(ctx, id); err == nil { // else it is told without
		fmt.Fprintln(notes, render.Printable(render.JobEnd(j, ofPayload(files))))
	}
	fmt.Fprintf(notes, "  -> %s\n", render.NextSteps(id))
	if j.Outcome == nil || !j.Outcome.Failed {
		return nil
	}
	if j.Outcome.Reason != "" {
		fmt.Fprintf(env.Stderr, "slipway: job %s: %s\n", id, render.Printable(j.Outcome.Reason))
	}
	if j.Outcome.Remedy != "" {
		fmt.Fprintf(env.Stderr, "  -> %s\n", render.Printable(j.Outcome.Remedy))
	}
	return exitCode(max(1, j.Outcome.ExitCode))
}

func runJobFiles(ctx context.Context, env Env, id, into string, asJSON bool) error {
	client, id, err := connectForJob(ctx, env, id)
	if err != nil {
		return err
	}
	files, err := client.JobFiles(ctx, id)
	if err != nil {
		return err
	}
	if into != "" {
		return fetchFiles(ctx, env, client, id, into, ofPayload(files))
	}
	if asJSON {
		return env.data(map[string]any{"files": files})
	}
	var rows [][]string
	for _, f := range ofPayload(files) {
		rows = append(rows, []string{f.Name, fmt.Sprint(f.Size)})
	}
	return render.Table(
		env.Stdout, []string{"NAME", "BYTES"}, rows,
		"No files. What a job writes into its working directory is here once it has ended.",
	)
}

func fetchFiles(ctx context.Context, env Env, client *hubapi.Client, id, into string, files []hubapi.File) error {
	j, err := client.Job(ctx, id)
	if err != nil {
		return err
	}
	for _, f := range files {
		if _, err := fetchInto(ctx, client, j, into, f); err != nil {
			return err
		}
		fmt.Fprintln(env.Stdout, filepath.Join(into, filepath.Base(f.Name)))
	}
	return nil
}
