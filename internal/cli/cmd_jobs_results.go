package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"slipway/hubapi"
	"slipway/internal/cli/render"
	"slipway/internal/units"
)

// fetchers is how many points' files are listed or fetched at a time.
const fetchers = 8

// jobResultsCommand is `slipway jobs results`.
func jobResultsCommand(env Env, asJSON *bool) *cobra.Command {
	to := ""
	c := &cobra.Command{
		Use: "results ID", Short: "List what a job, or each point of a scan, has come to; with --to fetch their files",
		Example: "  slipway jobs results scan-lo6t2sx73rrnja3r --to results",
		Args:    exactly(1, "the ID of a job or scan"),
		Long: "List what a job, or each point of a scan, has come to: its parameters, state, exit code and files. With --to the files are\n" +
			"fetched: a job's into that directory, those of a scan's point N into NNNN below it. A file that is there in full, of the same\n" +
			"try, is not fetched again, and none is ever there in part: what was interrupted goes on when it is called again.",
		RunE: func(c *cobra.Command, args []string) error {
			return runJobResults(c.Context(), env, args[0], to, *asJSON)
		},
	}
	c.Flags().StringVar(&to, "to", "", "fetch the files into this `DIR`")
	return c
}

// result is a job with the files that it has left.
type result struct {
	hubapi.Job
	Files []hubapi.File `json:"files"`
}

func runJobResults(ctx context.Context, env Env, id, to string, asJSON bool) error {
	client, id, err := connectForID(ctx, env, id)
	if err != nil {
		return err
	}
	results, err := resultsOf(ctx, client, id)
	if err == nil && (to != "" || asJSON) {
		err = listFiles(ctx, client, results, asJSON)
	}
	if err != nil {
		return err
	}
	if to != "" {
		err = fetchResults(ctx, env.Stderr, client, results, to)
	}
	switch {
	case err != nil:
		return err
	case asJSON:
		return env.data(map[string]any{"results": results})
	}
	return printResults(env.Stdout, results)
}

// resultsOf returns a job, or the points of a scan, with what those that have ended have left.
func resultsOf(ctx context.Context, client *hubapi.Client, id string) ([]result, error) {
	var jobs []hubapi.Job
	if ofScan(id) {
		list, err := client.PointsAndFiles(ctx, id)
		if err != nil {
			return nil, err
		}
		jobs = list.Jobs
	} else {
		j, err := client.Job(ctx, id)
		if err != nil {
			return nil, err
		}
		if j.State.Ended() {
			files, err := client.JobFiles(ctx, id)
			if err != nil {
				return nil, err
			}
			left := hubapi.LeftOf(files)
			j.Left = &left
		}
		jobs = []hubapi.Job{j}
	}
	results := make([]result, len(jobs))
	for i, j := range jobs {
		results[i] = result{Job: j, Files: []hubapi.File{}}
	}
	return results, nil
}

// listFiles asks what the files of jobs that have ended are called: of all, with those of the runner, or of those that
// have any.
func listFiles(ctx context.Context, client *hubapi.Client, results []result, all bool) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(fetchers)
	for i, r := range results {
		if !r.State.Ended() || !all && r.Left != nil && r.Left.Files == 0 {
			continue
		}
		g.Go(func() error {
			files, err := client.JobFiles(ctx, r.ID)
			if err == nil && files != nil {
				results[i].Files = files
			}
			return err
		})
	}
	return g.Wait()
}

func printResults(w io.Writer, results []result) error {
	var jobs []hubapi.Job
	for _, r := range results {
		jobs = append(jobs, r.Job)
	}
	names := hubapi.ParameterNames(jobs)
	var rows [][]string
	for _, r := range results {
		row := []string{strconv.Itoa(r.Point)}
		for _, name := range names {
			row = append(row, r.Parameters[name])
		}
		files := ""
		if left := r.Left; left != nil && left.Files > 0 {
			files = fmt.Sprintf("%s, %s", units.Count(int64(left.Files), "file", "files"), units.DiskWords(left.Bytes))
		}
		rows = append(rows, append(row, jobState(r.Job), exitOf(r.Job), files, r.ID, remark(r.Workload)))
	}
	head := append([]string{"POINT"}, names...)
	return render.Table(w, append(head, "STATE", "EXIT", "FILES", "JOB", "REMARK"), rows, "No points are left.")
}

// fetchResults fetches the files of each result, those of a scan's points each into a directory of its own.
func fetchResults(ctx context.Context, notes io.Writer, client *hubapi.Client, results []result, to string) error {
	all, bytes := 0, int64(0)
	for _, r := range results {
		for _, f := range ofPayload(r.Files) {
			all, bytes = all+1, bytes+f.Size
		}
	}
	var fetched, there atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(fetchers)
	told := time.Now()
	for _, r := range results {
		dir := to
		if r.Scan != "" {
			dir = filepath.Join(to, fmt.Sprintf("%04d", r.Point))
		}
		for _, f := range ofPayload(r.Files) {
			if time.Since(told) >= stepEvery {
				told = time.Now()
				fmt.Fprintf(
					notes, "fetch: %s of %s\n", units.Grouped(fetched.Load()+there.Load()),
					units.Count(int64(all), "file", "files"),
				)
			}
			g.Go(func() error {
				new, err := fetchInto(ctx, client, r.Job, dir, f)
				if new {
					fetched.Add(1)
				} else {
					there.Add(1)
				}
				return err
			})
		}
	}
	if err := g.Wait(); err != nil {
		return err
	}
	fmt.Fprintf(
		notes, "fetch: %s, %s, in %s; %s of them there already\n", units.Count(int64(all), "file", "files"),
		units.DiskWords(bytes), render.Printable(to), units.Grouped(there.Load()),
	)
	return nil
}

// ofPayload leaves out what is no work of the user's.
func ofPayload(files []hubapi.File) (left []hubapi.File) {
	for _, f := range files {
		if !f.OfRunner() {
			left = append(left, f)
		}
	}
	return left
}

// fetchInto fetches a file of a job's into a directory, unless it is there in full. Its time is that of the job's end:
// what is there of an earlier try has another one.
func fetchInto(
	ctx context.Context, client *hubapi.Client, j hubapi.Job, dir string, f hubapi.File,
) (fetched bool, err error) {
	path, ended := filepath.Join(dir, filepath.Base(f.Name)), endedAt(j)
	if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() && info.Size() == f.Size &&
		info.ModTime().Equal(ended) {
		return false, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return false, fmt.Errorf("fetch files of %s: %w", j.ID, err)
	}
	if err := fetchFile(path, ended, func(w io.Writer) error { return client.JobFile(ctx, j.ID, f.Name, w) }); err != nil {
		return false, fmt.Errorf("fetch %s of %s: %w", f.Name, j.ID, err)
	}
	return true, nil
}

// fetchFile has fetch write a file beside path, which then takes its place, with this time.
func fetchFile(path string, at time.Time, fetch func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".fetch-*")
	if err != nil {
		return err
	}
	err = fetch(f)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Chtimes(f.Name(), at, at)
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
