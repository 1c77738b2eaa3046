package cli

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/spf13/cobra"

	"slipway/hubapi"
)

// jobRetryCommand is `slipway jobs retry`.
func jobRetryCommand(env Env, asJSON *bool) *cobra.Command {
	var failed, canceled, all bool
	var mem, cpus, time string
	c := &cobra.Command{
		Use: "retry ID", Short: "Try a job again that has failed or was canceled, or the points of a scan that failed",
		Args: exactly(1, "the ID of a job or scan"),
		Long: "Try a job again that has failed or was canceled, or the points of a scan that failed (with --canceled those that were\n" +
			"canceled, too with --failed): the same jobs, in their places, with the same inputs. What the try before has left is\n" +
			"dropped. `slipway jobs resubmit` makes new ones instead.",
		Example: "  slipway jobs retry scan-lo6t2sx73rrnja3r --failed --mem 8G",
		RunE: inFlags(func(c *cobra.Command, args []string) error {
			r := hubapi.RetryRequest{
				JobLimits: hubapi.JobLimits{CPUs: given(cpus), Memory: given(mem), TimeLimit: given(time)},
				RequestID: rand.Text(),
			}
			for _, s := range []struct {
				wanted bool
				state  hubapi.State
			}{{failed || all, hubapi.JobFailed}, {canceled || all, hubapi.JobCanceled}, {all, hubapi.JobDone}} {
				if s.wanted {
					r.States = append(r.States, s.state)
				}
			}
			return runJobRetry(c.Context(), env, args[0], r, *asJSON)
		}),
	}
	c.Flags().BoolVar(&failed, "failed", false, "what has failed")
	c.Flags().BoolVar(&canceled, "canceled", false, "what was canceled; of a scan only where this says so")
	c.Flags().BoolVar(&all, "all", false, "what has failed, was canceled or is done")
	c.Flags().StringVar(&mem, "mem", "", "memory, such as 8G (default: as before)")
	c.Flags().StringVar(&cpus, "cpus", "", "CPUs (default: as before)")
	c.Flags().StringVar(&time, "time", "", "time limit, such as 90m (default: as before)")
	return c
}

// given is a flag's value for a field that is left out when the flag is.
func given(flag string) any {
	if flag == "" {
		return nil
	}
	return flag
}

func runJobRetry(ctx context.Context, env Env, id string, r hubapi.RetryRequest, asJSON bool) error {
	client, id, err := connectForID(ctx, env, id)
	if err != nil {
		return err
	}
	if ofScan(id) {
		done, err := client.RetryScan(ctx, id, r)
		if err != nil {
			return err
		}
		return printScanChange(env, done, "tried again", "no point has ended so", asJSON)
	}
	j, err := client.RetryJob(ctx, id, r)
	switch {
	case err != nil:
		return err
	case asJSON:
		return env.data(j)
	}
	_, err = fmt.Fprintf(env.Stdout, "%s is tried again: try %d\n", j.ID, j.Attempt)
	return err
}

// jobResubmitCommand is `slipway jobs resubmit`.
func jobResubmitCommand(env Env, asJSON *bool) *cobra.Command {
	r := hubapi.ResubmitRequest{}
	var name, mem, cpus, time, gpu string
	var retry, priority int
	c := &cobra.Command{
		Use: "resubmit ID", Short: "Submit a new job, or scan, like an earlier one",
		Args: exactly(1, "the ID of a job or scan"),
		Long: "Submit a new job, or scan, with what an earlier one was submitted with, its script and files too, but for what the flags\n" +
			"say. The earlier one stays as it is. It prints the new one's ID.",
		Example: "  slipway jobs resubmit j-6yqx7mavk3wcs2dh --mem 8G --to htcondor",
		RunE: inFlags(func(c *cobra.Command, args []string) error {
			r.CPUs, r.Memory, r.TimeLimit, r.GPU, r.RequestID = given(cpus), given(mem), given(time), given(gpu), rand.Text()
			for flag, set := range map[string]func(){"name": func() { r.Name = &name }, "retry": func() { r.Retries = &retry }, "priority": func() { r.Priority = &priority }} {
				if c.Flags().Changed(flag) {
					set()
				}
			}
			return runJobResubmit(c.Context(), env, args[0], r, *asJSON)
		}),
	}
	f := c.Flags()
	f.StringVar(&name, "name", "", "a name (default: as before)")
	f.StringVar(&r.Environment, "env", "", "the environment (default: as before)")
	f.StringVar(&cpus, "cpus", "", "CPUs (default: as before)")
	f.StringVar(&mem, "mem", "", "memory, such as 8G (default: as before)")
	f.StringVar(&time, "time", "", "time limit, such as 90m (default: as before)")
	f.StringVar(&gpu, "gpu", "", "a slice of a GPU; none: none (default: as before)")
	f.StringVar(&r.Backend, "to", "", "the backend (default: as before)")
	f.IntVar(&retry, "retry", 0, "how often to try again what fails (default: as before)")
	f.StringArrayVar(&r.After, "after", nil, "`JOB|SCAN` that must be done before it starts (repeatable)")
	f.IntVar(&priority, "priority", 0, "among your own jobs, -100 to 100 (default: as before)")
	return c
}

func runJobResubmit(ctx context.Context, env Env, id string, r hubapi.ResubmitRequest, asJSON bool) error {
	client, id, err := connectForID(ctx, env, id)
	if err != nil {
		return err
	}
	if ofScan(id) {
		list, err := client.ResubmitScan(ctx, id, r)
		if err != nil {
			return err
		}
		return printNewScan(env, list, asJSON)
	}
	j, err := client.ResubmitJob(ctx, id, r)
	switch {
	case err != nil:
		return err
	case asJSON:
		return env.data(j)
	}
	_, err = fmt.Fprintln(env.Stdout, j.ID)
	return err
}
