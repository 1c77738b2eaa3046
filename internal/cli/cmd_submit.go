package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"slipway/hubapi"
	"slipway/internal/cli/render"
	"slipway/internal/errs"
	"slipway/internal/paramgrid"
	"slipway/internal/units"
)

// submitOptions are the flags of `slipway submit`.
type submitOptions struct {
	name, env, cpus, mem, time, gpu, backend  string
	detach, asJSON, preemptible, local, quiet bool
	scan, after, out, in                      []string
	gridFile                                  string
	retry, priority                           int
}

// submitCommand is `slipway submit`.
func submitCommand(env Env) *cobra.Command {
	o := submitOptions{}
	c := &cobra.Command{
		Use: "submit [flags] SCRIPT [-- ARGS...]", Short: "Run a script as a job in a frozen environment",
		Long: "Run a script as a job. Inside a session its environment is frozen first, if it changed; with --env the job runs in\n" +
			"that environment. A .py file runs with python3, any other by its first line. Files named by --in travel with it. The\n" +
			"output is shown as it comes. Ctrl-C stops watching; the job runs on.\n\n" +
			"With --scan the script runs once for each combination of the values: as many jobs, submitted together. Values are a list\n" +
			"(k=1,2,3), log(first,last,count), linear(first,last,count) or range(first,end,step); one in quotes is text as it stands.\n" +
			"--grid-file takes the points from a table with a header (.csv) or a list of objects (.json). A job finds its values in\n" +
			"environment variables of these names, all of them as JSON in SLIPWAY_PARAMETERS, and its number, from 0, in SLIPWAY_POINT.\n\n" +
			"Exit codes: the job's own; of a scan 0 when all its points are done, else 1; 1 when the submission was refused, 2 wrong\n" +
			"usage, 130 after Ctrl-C.",
		Example: "  slipway submit --name fit --mem 4G fit.py -- --points 500\n" +
			"  slipway submit --to any --in data.root --out 'hist-*.root' --retry 2 fill.py\n" +
			"  slipway submit --to htcondor --scan k=1,2,3 --scan 'lr=log(1e-4,1e-1,7)' fit.py",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{fmt.Errorf("slipway submit needs a script; see `slipway submit --help`")}
			}
			return o.check()
		},
		RunE: inFlags(
			func(c *cobra.Command, args []string) error { return runSubmit(c.Context(), env, o, args[0], args[1:]) },
		),
	}
	o.flags(c)
	return c
}

func (o *submitOptions) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.name, "name", "", "a name for the job (default: the script's)")
	f.StringVar(&o.env, "env", "", "the environment: digest, the beginning of it, name, name:tag or owner/name:tag")
	f.StringVar(&o.cpus, "cpus", "", "CPUs, such as 2 or 0.5 (default: the site's)")
	f.StringVar(&o.mem, "mem", "", "memory, such as 4G (default: the site's)")
	f.StringVar(&o.time, "time", "", "time limit, such as 90m (default: the site's)")
	f.StringVar(&o.gpu, "gpu", "", "a slice of a GPU, such as 1g.18gb, or in a pool 'any,capability>=8.0,capability<=9.0' (also memory>=, runtime>=, driver>=, count=, optional, can-use); see slipway gpus (default: none)")
	f.BoolVar(
		&o.preemptible, "preemptible", false,
		"with --gpu: an idle session's slice will do; the job begins anew when its owner is back",
	)
	f.StringVar(
		&o.backend, "to", "",
		"the backend, such as local or htcondor; any: where it would start first (default: the site's)",
	)
	f.StringArrayVar(&o.scan, "scan", nil, "a job for each value of `NAME=VALUES`, as k=1,2,3; repeated: for each combination (at most 10,000)")
	f.StringVar(&o.gridFile, "grid-file", "", "a job for each point of `FILE`.csv or FILE.json")
	f.StringArrayVar(&o.in, "in", nil, "a `FILE` that travels with the script, into its working directory (repeatable)")
	f.StringArrayVar(&o.out, "out", nil, "`PATTERN` of files that it has to leave, such as '*.root': no others come back (repeatable)")
	f.IntVar(&o.retry, "retry", 0, "how often to try again a job that fails (default: never)")
	f.StringArrayVar(&o.after, "after", nil, "`JOB|SCAN` that must be done before it starts (repeatable)")
	f.IntVar(&o.priority, "priority", 0, "among your own jobs, -100 to 100: higher goes first")
	f.BoolVar(&o.local, "local", false, "try it: the first point alone, on the service's own host")
	f.BoolVar(&o.detach, "detach", false, "print the job's ID, or the scan's, and return at once")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "say nothing but the output and what is wrong")
	f.BoolVar(
		&o.asJSON, "json", false, "with --detach: print the job, or the scan and its first jobs, as the API's JSON",
	)
}

// check refuses flags that contradict each other.
func (o *submitOptions) check() error {
	switch {
	case o.preemptible && o.gpu == "":
		return usageError{errors.New("--preemptible says how a slice of a GPU may be had: give --gpu too")}
	case len(o.scan) > 0 && o.gridFile != "":
		return usageError{errors.New("--scan and --grid-file both say what the points are: give one of them")}
	case o.local && (o.detach || o.backend != "" && o.backend != trialBackend):
		return usageError{errors.New("--local is a trial that is watched here: leave out --detach and --to")}
	case o.asJSON && !o.detach:
		return usageError{errors.New("--json is of what --detach prints: give that too")}
	case o.retry < 0:
		return usageError{errors.New("--retry is a number of tries more, 0 or above")}
	}
	return nil
}

func runSubmit(ctx context.Context, env Env, o submitOptions, script string, args []string) error {
	client, err := connect(env)
	if err != nil {
		return err
	}
	notes := env.Stderr
	if o.quiet {
		notes = io.Discard
	}
	r, load, err := jobRequest(o, script, args)
	if err != nil {
		return err
	}
	if err := checkSyntax(ctx, env, script, r, o.env != ""); err != nil {
		return err
	}
	if o.local {
		r = tried(notes, r)
	}
	plan, err := client.CheckJob(ctx, withoutLoad(r))
	if err != nil {
		return err
	}
	e, err := environmentFor(ctx, env, notes, client, o.env)
	if err != nil {
		return err
	}
	if r.Environment = o.env; o.env == "" {
		r.Environment = e.Digest
	}
	fmt.Fprintln(notes, render.Printable(planWords(e, o.env == "", r, load, plan)))
	if err := load.put(ctx, notes, client); err != nil {
		return err
	}
	switch {
	case o.local && len(r.Points) > 0:
		list, err := submitted(ctx, r, client.SubmitScan)
		if err != nil {
			return err
		}
		return watchJob(ctx, env, notes, client, list.Jobs[0])
	case len(r.Points) > 0:
		return runScan(ctx, env, notes, client, o, r)
	}
	j, err := submitted(ctx, r, client.Submit)
	switch {
	case err != nil:
		return err
	case o.detach && o.asJSON:
		return env.data(j)
	case o.detach:
		_, err := fmt.Fprintln(env.Stdout, j.ID)
		return err
	}
	return watchJob(ctx, env, notes, client, j)
}

// submitPatience is how long a submission waits for a service that is being started anew.
const submitPatience = 20 * time.Second

// submitted submits, again where the service went away meanwhile: the same request is never taken twice.
func submitted[T any](
	ctx context.Context, r hubapi.JobRequest, submit func(context.Context, hubapi.JobRequest) (T, error),
) (made T, err error) {
	err = again(ctx, time.Second, submitPatience, func() (bool, error) {
		made, err = submit(ctx, r)
		return err == nil, err
	})
	return made, err
}

// trialBackend is where a trial runs: the service's own host, which every site has.
const trialBackend = "local"

// tried is a request's first point alone, on the service's own host.
func tried(notes io.Writer, r hubapi.JobRequest) hubapi.JobRequest {
	r.Backend = trialBackend
	if len(r.Points) > 0 {
		fmt.Fprintf(
			notes, "trying the first of %s: %s\n", units.Count(int64(len(r.Points)), "point", "points"),
			render.Printable(parameterWords(r.Points[0].Parameters)),
		)
		r.Points = r.Points[:1]
	}
	return r
}

// watchJob shows a job's output as it comes and ends as the job does.
func watchJob(ctx context.Context, env Env, notes io.Writer, client *hubapi.Client, j hubapi.Job) error {
	fmt.Fprintf(notes, "job %s submitted to %s; `slipway jobs logs -f %s` shows it again\n", j.ID, j.Backend, j.ID)
	out, done := render.ForTerminal(env.Stdout, false)
	defer done()
	if err := client.JobLog(ctx, j.ID, 0, true, out); err != nil {
		return watchingEnded(ctx, env, j.ID, err)
	}
	return watchingEnded(ctx, env, j.ID, exitAsJob(ctx, env, notes, client, j.ID))
}

// watchingEnded tells a user who interrupts that the job runs on.
func watchingEnded(ctx context.Context, env Env, id string, err error) error {
	if ctx.Err() == nil {
		return err
	}
	fmt.Fprintf(env.Stderr, "\nstopped watching; job %s runs on\n  -> `slipway jobs logs -f %s` shows it, `slipway jobs cancel %s` ends it\n", id, id, id)
	return exitCode(exitInterrupted)
}

// jobRequest reads the script and makes the request, and what is to be put into the store before it.
func jobRequest(o submitOptions, script string, args []string) (hubapi.JobRequest, inputs, error) {
	points, err := paramgrid.Parse(o.scan)
	if o.gridFile != "" {
		points, err = paramgrid.File(o.gridFile)
	}
	if err != nil {
		return hubapi.JobRequest{}, inputs{}, err
	}
	load, err := readInputs(script, o.in)
	if err != nil {
		return hubapi.JobRequest{}, load, err
	}
	file := load.script
	name := o.name
	if name == "" {
		name = file
	}
	r := hubapi.JobRequest{
		Name: name,
		JobSpec: hubapi.JobSpec{
			Argv: append(commandFor(file, load.head), args...), Retries: o.retry, After: o.after, Priority: o.priority,
			Out: o.out,
		},
		JobLimits:   hubapi.JobLimits{CPUs: o.cpus, Memory: o.mem, TimeLimit: o.time},
		JobInputs:   hubapi.JobInputs{Files: load.files, Blobs: load.blobs()},
		Preemptible: o.preemptible, Backend: o.backend, Points: points, RequestID: rand.Text(),
	}
	if o.gpu != "" {
		r.GPU = o.gpu
	}
	return r, load, nil
}

// commandFor returns the command that runs a script: what its first line names, python3 for a .py file, else sh.
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

// withoutLoad is the request as far as it is checked beforehand: files are checked with the submission.
func withoutLoad(r hubapi.JobRequest) hubapi.JobRequest {
	r.JobInputs = hubapi.JobInputs{}
	return r
}

// environmentFor returns the environment that was asked for, or freezes the session that this runs in.
func environmentFor(
	ctx context.Context, env Env, notes io.Writer, client *hubapi.Client, ref string,
) (hubapi.Environment, error) {
	if ref != "" {
		return client.Environment(ctx, ref)
	}
	me, err := client.Me(ctx)
	if err != nil {
		return hubapi.Environment{}, err
	}
	if me.Session == "" {
		return hubapi.Environment{}, errs.New(errs.Invalid, "there is no session here to take the environment from").With("name one with --env; `slipway envs` lists them")
	}
	return freezeFor(ctx, notes, client, hubapi.Self, hubapi.FreezeRequest{})
}
