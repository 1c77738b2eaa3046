package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"slipway/hubapi"
	"slipway/internal/errs"
)

// jobReadCommands read what a job has written.
func jobReadCommands(env Env, asJSON *bool) []*cobra.Command {
	follow, into := false, ""
	logs := &cobra.Command{
		Use: "logs ID", Short: "Print a job's output", Args: exactly(1, "a job's ID"),
		RunE: func(c *cobra.Command, args []string) error { return runJobLogs(c.Context(), env, args[0], follow) },
	}
	logs.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the job has ended, then exit with its code")
	files := &cobra.Command{
		Use: "files ID", Short: "List the files that a job has left; with --into fetch them", Args: exactly(1, "a job's ID"),
		RunE: func(c *cobra.Command, args []string) error {
			return runJobFiles(c.Context(), env, args[0], into, *asJSON)
		},
	}
	files.Flags().StringVar(&into, "into", "", "fetch the files into this directory")
	return []*cobra.Command{logs, files}
}

// ofScan tells a scan from a job by its ID.
func ofScan(id string) bool { return strings.HasPrefix(id, "scan-") }

// connectForID connects for what jobs and scans have, which go by their IDs: names may be there twice.
func connectForID(env Env, id string) (*hubapi.Client, error) {
	if !ofScan(id) && !strings.HasPrefix(id, "j-") && id != hubapi.Self {
		return nil, errs.Bad("ID", id, "the ID of a job or scan, not its name: `slipway jobs` lists them")
	}
	return connect(env)
}

// connectForJob connects for what only a single job has.
func connectForJob(env Env, id string) (*hubapi.Client, error) {
	if ofScan(id) {
		return nil, errs.New(errs.Invalid, "%s is a scan, and what is asked for is a job's", id).With("name one of its jobs, as `slipway jobs show " + id + "` lists them")
	}
	return connectForID(env, id)
}

func runJobLogs(ctx context.Context, env Env, id string, follow bool) error {
	client, err := connectForJob(env, id)
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
	client, err := connectForJob(env, id)
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
