package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"slipway/hubapi"
	"slipway/internal/errs"
	"slipway/internal/scan"
)

// submitOptions are the flags of `slipway submit`.
type submitOptions struct {
	name, env, cpus, mem, time, gpu, backend string
	detach, asJSON, preemptible              bool
	scan                                     []string
}

// submitCommand is `slipway submit`.
func submitCommand(env Env) *cobra.Command {
	o := submitOptions{}
	c := &cobra.Command{
		Use: "submit [flags] SCRIPT [-- ARGS...]", Short: "Run a script as a job in a frozen environment",
		Long: "Run a script as a job. Inside a session its environment is frozen first, if it changed; with --env the job runs in\n" +
			"that environment. A .py file runs with python3, any other by its first line. The output is shown as it comes and\n" +
			"the exit code is the job's. Ctrl-C stops watching; the job runs on.\n\n" +
			"With --scan the script runs once for each combination of the values: as many jobs, submitted together. A job finds its\n" +
			"values in environment variables of these names, all of them as JSON in SLIPWAY_PARAMETERS, and its number, from 0, in\n" +
			"SLIPWAY_POINT. How many run, are done or have failed is shown; the exit code is 0 when all are done, else 1.",
		Example: "  slipway submit --name fit --mem 4G fit.py -- --points 500\n" +
			"  slipway submit --to htcondor --scan k=1,2,3 --scan mode=fast,slow fit.py",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{fmt.Errorf("slipway submit needs a script; see `slipway submit --help`")}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return runSubmit(c.Context(), env, o, args[0], args[1:]) },
	}
	c.Flags().StringVar(&o.name, "name", "", "a name for the job (default: the script's)")
	c.Flags().StringVar(&o.env, "env", "", "the environment: digest, the beginning of it, name, name:tag or owner/name:tag")
	c.Flags().StringVar(&o.cpus, "cpus", "", "CPUs, such as 2 or 0.5 (default: the site's)")
	c.Flags().StringVar(&o.mem, "mem", "", "memory, such as 4G (default: the site's)")
	c.Flags().StringVar(&o.time, "time", "", "time limit, such as 90m (default: the site's)")
	c.Flags().StringVar(&o.gpu, "gpu", "", "a slice of a GPU, such as 1g.18gb, or in a pool 'any,capability>=8.0'; see slipway gpus (default: none)")
	c.Flags().BoolVar(&o.preemptible, "preemptible", false, "with --gpu: an idle session's slice will do; the job begins anew when its owner is back")
	c.Flags().StringVar(&o.backend, "to", "", "the backend, such as local or htcondor (default: the site's)")
	c.Flags().StringArrayVar(&o.scan, "scan", nil, "a job for each value of `NAME=VALUES`, as k=1,2,3; repeated: for each combination (at most 10,000)")
	c.Flags().BoolVar(&o.detach, "detach", false, "print the job's ID, or the scan's, and return at once")
	c.Flags().BoolVar(&o.asJSON, "json", false, "with --detach: print the job as the API's JSON")
	return c
}

func runSubmit(ctx context.Context, env Env, o submitOptions, script string, args []string) error {
	if o.preemptible && o.gpu == "" {
		return usageError{errors.New("--preemptible says how a slice of a GPU may be had: give --gpu too")}
	}
	client, err := connect(env)
	if err != nil {
		return err
	}
	r, err := jobRequest(o, script, args)
	if err != nil {
		return err
	}
	if _, err := client.CheckJob(ctx, withoutLoad(r)); err != nil {
		return err
	}
	if r.Environment, err = environmentFor(ctx, env, client, o.env); err != nil {
		return err
	}
	if len(r.Points) > 0 {
		return runScan(ctx, env, client, o, r)
	}
	j, err := client.Submit(ctx, r)
	if err != nil {
		return err
	}
	if o.detach && o.asJSON {
		return printJSON(env.Stdout, j)
	}
	if o.detach {
		_, err := fmt.Fprintln(env.Stdout, j.ID)
		return err
	}
	fmt.Fprintf(env.Stderr, "job %s submitted to %s; `slipway jobs logs -f %s` shows it again\n", j.ID, j.Backend, j.ID)
	if err := client.JobLog(ctx, j.ID, 0, true, env.Stdout); err != nil {
		return watchingEnded(ctx, env, j.ID, err)
	}
	return watchingEnded(ctx, env, j.ID, exitAsJob(ctx, env, client, j.ID))
}

// watchingEnded tells a user who interrupts that the job runs on.
func watchingEnded(ctx context.Context, env Env, id string, err error) error {
	if ctx.Err() == nil {
		return err
	}
	fmt.Fprintf(env.Stderr, "\nstopped watching; job %s runs on\n  -> `slipway jobs logs -f %s` shows it, `slipway jobs cancel %s` ends it\n", id, id, id)
	return exitCode(130)
}

// jobRequest reads the script and makes the request.
func jobRequest(o submitOptions, script string, args []string) (hubapi.JobRequest, error) {
	points, err := scan.Parse(o.scan)
	if err != nil {
		return hubapi.JobRequest{}, err
	}
	text, err := os.ReadFile(script)
	if err != nil {
		return hubapi.JobRequest{}, errs.New(errs.Invalid, "read the script: %w", err).With("give the path of a file")
	}
	file := filepath.Base(script)
	name := o.name
	if name == "" {
		name = file
	}
	r := hubapi.JobRequest{
		Name: name, Argv: append(commandFor(file, string(text)), args...), Files: map[string][]byte{file: text},
		CPUs: o.cpus, Memory: o.mem, TimeLimit: o.time, Backend: o.backend, RequestID: rand.Text(), Preemptible: o.preemptible,
		Points: points,
	}
	if o.gpu != "" {
		r.GPU = o.gpu
	}
	return r, nil
}

// commandFor gives the command that runs a script: what its first line names, python3 for a .py file, else sh.
func commandFor(file, text string) []string {
	first, _, _ := strings.Cut(text, "\n")
	switch interpreter, ok := strings.CutPrefix(first, "#!"); {
	case ok && strings.TrimSpace(interpreter) != "":
		return append(strings.Fields(interpreter), file)
	case strings.HasSuffix(file, ".py"):
		return []string{"python3", "-u", file}
	default:
		return []string{"sh", file}
	}
}

// withoutLoad is the request as far as it is checked beforehand: files and points are checked with the submission.
func withoutLoad(r hubapi.JobRequest) hubapi.JobRequest {
	r.Files, r.Points = nil, nil
	return r
}

// environmentFor gives the environment that was asked for, or freezes the session that this runs in.
func environmentFor(ctx context.Context, env Env, client *hubapi.Client, ref string) (string, error) {
	if ref != "" {
		return ref, nil
	}
	me, err := client.Me(ctx)
	if err != nil {
		return "", err
	}
	if me.Session == "" {
		return "", errs.New(errs.Invalid, "there is no session here to take the environment from").With("name one with --env; `slipway envs` lists them")
	}
	e, err := freeze(ctx, env.Stderr, client, hubapi.Self, hubapi.FreezeRequest{})
	return e.Digest, err
}
