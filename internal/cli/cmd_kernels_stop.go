package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"slipway/hubapi"
	"slipway/internal/cli/render"
	"slipway/internal/clock"
	"slipway/internal/errs"
)

// kernelStopCommand is `slipway kernels stop`.
func kernelStopCommand(env Env) *cobra.Command {
	all := false
	c := &cobra.Command{
		Use: "stop ID...", Short: "Shut kernels down: what they have computed is lost, their slices come free",
		Example: "  slipway kernels stop s-6yqx7mavk3wcs2dh\n" +
			"  slipway kernels stop --all",
		Long: "Shut kernels down and wait until their slices are free. An administrator may name any by the ID of its session, as\n" +
			"`slipway kernels --all-users` lists them.",
		Args: func(c *cobra.Command, args []string) error {
			if all && len(args) > 0 {
				return usageError{errors.New("--all chooses what is shut down: leave out the IDs")}
			}
			if all {
				return nil
			}
			return someKernels(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error { return runKernelsStop(c.Context(), env, args, all) },
	}
	c.Flags().BoolVar(&all, "all", false, "all of your kernels")
	return c
}

func runKernelsStop(ctx context.Context, env Env, words []string, all bool) error {
	client, err := connect(env)
	if err != nil {
		return err
	}
	meant, err := kernelsToStop(ctx, client, words, all)
	if err != nil {
		return err
	}
	if len(meant) == 0 {
		_, err = fmt.Fprintln(env.Stdout, "No kernels.")
		return err
	}
	var failed []error
	var asked []ownKernel
	for _, k := range meant {
		if k.ID == "" {
			err = client.RemoveSession(ctx, k.Session)
		} else {
			err = client.StopKernel(ctx, k.ID)
		}
		if err != nil && !errs.Is(err, errs.NotFound) { // gone is what was wanted
			failed = append(failed, fmt.Errorf("%s: %w", k.Session, err))
			continue
		}
		asked = append(asked, k)
	}
	for _, k := range asked {
		if err := awaitGone(ctx, env, client, k.Session); err != nil {
			failed = append(failed, err)
			continue
		}
		fmt.Fprintf(env.Stdout, "%s (%s) is shut down\n", k.Session, render.Printable(k.Name))
	}
	return errors.Join(failed...)
}

// kernelsToStop finds what is to be shut down. What an administrator names of others has no ID of Jupyter's.
func kernelsToStop(ctx context.Context, client *hubapi.Client, words []string, all bool) ([]ownKernel, error) {
	if all {
		return ownKernels(ctx, client)
	}
	list, err := kernelsMeant(ctx, client, words)
	if !errs.Is(err, errs.NotFound) {
		return list, err
	}
	list = nil
	for _, word := range words {
		s, otherwise := client.Session(ctx, word)
		if !sessionID.MatchString(word) || otherwise != nil || s.Kind != "kernel" {
			return nil, err
		}
		list = append(list, ownKernel{Kernel: hubapi.Kernel{Name: s.Name, Session: s.ID}})
	}
	return list, nil
}

const (
	goneEvery = 200 * time.Millisecond
	goneTime  = 2 * time.Minute
)

// awaitGone waits until nothing of a session is left, and says so when that takes its time.
func awaitGone(ctx context.Context, env Env, client *hubapi.Client, id string) error {
	steps := &steps{w: env.Stderr, what: id}
	for until := time.Now().Add(goneTime); ; {
		s, err := client.Session(ctx, id)
		switch {
		case errs.Is(err, errs.NotFound):
			return nil
		case err != nil:
			return err
		case time.Now().After(until):
			return errs.New(errs.Unavailable, "%s is still %s: it is being ended", id, s.Phase).With("`slipway sessions show " + id + "` says more")
		}
		steps.tell(hubapi.Progress{Stage: "ending", Message: "still " + s.Phase})
		if !clock.Sleep(ctx, goneEvery) {
			return ctx.Err()
		}
	}
}
