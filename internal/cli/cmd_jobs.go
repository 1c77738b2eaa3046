package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"slipway/hubapi"
)

// jobsCommand is `slipway jobs`.
func jobsCommand(env Env) *cobra.Command {
	asJSON, follow, into := false, false, ""
	c := &cobra.Command{
		Use: "jobs", Short: "List your jobs; show, read, fetch, cancel or remove one", Args: nothingElse,
		RunE: func(c *cobra.Command, _ []string) error { return runJobs(c.Context(), env, asJSON) },
	}
	c.PersistentFlags().BoolVar(&asJSON, "json", false, "print the API's JSON")
	logs := &cobra.Command{
		Use: "logs ID", Short: "Print a job's output", Args: exactly(1, "a job's ID"),
		RunE: func(c *cobra.Command, args []string) error { return runJobLogs(c.Context(), env, args[0], follow) },
	}
	logs.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the job has ended, then exit with its code")
	files := &cobra.Command{
		Use: "files ID", Short: "List the files that a job has left; with --into fetch them", Args: exactly(1, "a job's ID"),
		RunE: func(c *cobra.Command, args []string) error {
			return runJobFiles(c.Context(), env, args[0], into, asJSON)
		},
	}
	files.Flags().StringVar(&into, "into", "", "fetch the files into this directory")
	c.AddCommand(logs, files, &cobra.Command{
		Use: "show ID", Short: "Show one job", Args: exactly(1, "a job's ID"),
		RunE: func(c *cobra.Command, args []string) error { return runJobShow(c.Context(), env, args[0], asJSON) },
	}, &cobra.Command{
		Use: "cancel ID", Short: "Cancel a job", Args: exactly(1, "a job's ID"),
		RunE: func(c *cobra.Command, args []string) error { return runJobCancel(c.Context(), env, args[0]) },
	}, &cobra.Command{
		Use: "rm ID", Short: "Remove a job's record, output and files", Args: exactly(1, "a job's ID"),
		RunE: func(c *cobra.Command, args []string) error { return runJobRemove(c.Context(), env, args[0]) },
	})
	return c
}

func runJobs(ctx context.Context, env Env, asJSON bool) error {
	client, err := connect(env)
	if err != nil {
		return err
	}
	list, err := client.Jobs(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(env.Stdout, hubapi.Jobs{Jobs: list})
	}
	var rows [][]string
	for _, j := range slices.Backward(list) { // the newest first: that is the one that is looked for
		code := ""
		if j.Outcome != nil {
			code = fmt.Sprint(j.Outcome.ExitCode)
		}
		rows = append(rows, []string{
			j.ID, j.User, j.Name, string(j.State), code, j.Backend, shortDigest(j.Environment), ago(j.Created, time.Now()), remark(j.Workload),
		})
	}
	head := []string{"ID", "USER", "NAME", "STATE", "EXIT", "BACKEND", "ENVIRONMENT", "SUBMITTED", "REMARK"}
	return printTable(env.Stdout, head, rows, "No jobs. %%grid in a notebook or `slipway submit` makes one.")
}

func runJobShow(ctx context.Context, env Env, id string, asJSON bool) error {
	client, err := connect(env)
	if err != nil {
		return err
	}
	j, err := client.Job(ctx, id)
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(env.Stdout, j)
	}
	return printPairs(env.Stdout, append(pairsOf(j.Workload), [][2]string{
		{"state", string(j.State)}, {"environment", j.Environment}, {"session", j.Session}, {"command", fmt.Sprintf("%q", j.Argv)}, {"time limit", j.TimeLimit},
	}...))
}

func runJobLogs(ctx context.Context, env Env, id string, follow bool) error {
	client, err := connect(env)
	if err != nil {
		return err
	}
	if err := client.JobLog(ctx, id, 0, follow, env.Stdout); err != nil || !follow {
		return err
	}
	return exitAsJob(ctx, env, client, id)
}

// exitAsJob waits for a job's end and passes its exit code on.
func exitAsJob(ctx context.Context, env Env, client *hubapi.Client, id string) error {
	if err := client.JobEvents(ctx, id, func(hubapi.Event) error { return nil }); err != nil {
		return err
	}
	j, err := client.Job(ctx, id)
	if err != nil || j.Outcome == nil || !j.Outcome.Failed {
		return err
	}
	if j.Outcome.Reason != "" {
		fmt.Fprintf(env.Stderr, "slipway: job %s: %s\n", id, j.Outcome.Reason)
	}
	if j.Outcome.Remedy != "" {
		fmt.Fprintf(env.Stderr, "  -> %s\n", j.Outcome.Remedy)
	}
	return exitCode(max(1, j.Outcome.ExitCode))
}

func runJobFiles(ctx context.Context, env Env, id, into string, asJSON bool) error {
	client, err := connect(env)
	if err != nil {
		return err
	}
	files, err := client.JobFiles(ctx, id)
	if err != nil {
		return err
	}
	if into != "" {
		return fetchFiles(ctx, env, client, id, into, files)
	}
	if asJSON {
		return printJSON(env.Stdout, map[string]any{"files": files})
	}
	var rows [][]string
	for _, f := range files {
		rows = append(rows, []string{f.Name, fmt.Sprint(f.Size)})
	}
	return printTable(env.Stdout, []string{"NAME", "BYTES"}, rows, "No files. What a job writes into its working directory is here once it has ended.")
}

func fetchFiles(ctx context.Context, env Env, client *hubapi.Client, id, into string, files []hubapi.File) error {
	if err := os.MkdirAll(into, 0o755); err != nil {
		return fmt.Errorf("fetch files of %s: %w", id, err)
	}
	for _, f := range files {
		path := filepath.Join(into, filepath.Base(f.Name))
		if err := fetchFile(path, func(w io.Writer) error { return client.JobFile(ctx, id, f.Name, w) }); err != nil {
			return fmt.Errorf("fetch %s of %s: %w", f.Name, id, err)
		}
		fmt.Fprintln(env.Stdout, path)
	}
	return nil
}

func fetchFile(path string, fetch func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := fetch(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

func runJobCancel(ctx context.Context, env Env, id string) error {
	client, err := connect(env)
	if err != nil {
		return err
	}
	j, err := client.CancelJob(ctx, id)
	switch {
	case err != nil:
		return err
	case j.State.Ended():
		_, err = fmt.Fprintf(env.Stdout, "%s has ended already: %s\n", j.ID, j.State)
	default:
		_, err = fmt.Fprintf(env.Stdout, "%s is being cancelled (it is %s)\n", j.ID, j.State)
	}
	return err
}

func runJobRemove(ctx context.Context, env Env, id string) error {
	client, err := connect(env)
	if err != nil {
		return err
	}
	return client.RemoveJob(ctx, id)
}
