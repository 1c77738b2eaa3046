package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"slipway/hubapi"
	"slipway/internal/cli/render"
	"slipway/internal/errs"
	"slipway/kernels/wire"
)

// kernelStartCommand is `slipway kernels start`.
func kernelStartCommand(env Env, asJSON *bool) *cobra.Command {
	return &cobra.Command{
		Use: "start [SPEC]", Short: "Start a kernel, of the default kernelspec or of another", Args: atMostOne,
		Example: "  slipway kernels start python-gpu",
		Long: "Start a kernel of a kernelspec that `slipway kernels specs` lists and tell what happens until it is up. JupyterLab and VS Code\n" +
			"connect to it as to one that they have started. Interrupted, the start ends.",
		RunE: func(c *cobra.Command, args []string) error {
			spec := ""
			if len(args) > 0 {
				spec = args[0]
			}
			return runKernelStart(c.Context(), env, spec, *asJSON)
		},
	}
}

// startEvery is how often it is asked how far a start is.
const startEvery = 500 * time.Millisecond

// takeBackTime is how long the end of a start may take to be asked for.
const takeBackTime = 5 * time.Second

func runKernelStart(ctx context.Context, env Env, spec string, asJSON bool) error {
	client, err := connect(env)
	if err != nil {
		return err
	}
	id := wire.NewUUID()
	type answer struct {
		hubapi.Kernel
		err error
	}
	started := make(chan answer, 1)
	go func() {
		k, err := client.StartKernel(ctx, hubapi.KernelRequest{Name: spec, Env: map[string]string{wire.IDVariable: id}})
		started <- answer{k, err}
	}()
	steps := &steps{w: env.Stderr, what: "start"}
	for answered := false; ; {
		var k hubapi.Kernel
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), takeBack(client, id))
		case a := <-started:
			if a.err != nil {
				return a.err
			}
			k, answered = a.Kernel, true
		case <-time.After(startEvery):
			if k, err = client.Kernel(ctx, id); err != nil && answered {
				return err
			}
		}
		switch {
		case answered && k.State == hubapi.KernelDead:
			return errs.New(errs.Unavailable, "the kernel does not start: %s", cmp.Or(k.Reason, "it has ended"))
		case answered && k.State != hubapi.KernelStarting:
			steps.flush()
			return tellStarted(env, k, asJSON)
		}
		steps.tell(hubapi.Progress{Stage: k.Progress, Message: k.Progress})
	}
}

// takeBack ends a start that nobody waits for any more.
func takeBack(client *hubapi.Client, id string) error {
	ctx, cancel := context.WithTimeout(context.Background(), takeBackTime)
	defer cancel()
	err := client.StopKernel(ctx, id)
	if errs.Is(err, errs.NotFound) {
		return nil
	}
	return err
}

func tellStarted(env Env, k hubapi.Kernel, asJSON bool) error {
	if asJSON {
		return env.data(k)
	}
	_, err := fmt.Fprintf(env.Stdout, "%s (%s) is %s\n", k.Session, render.Printable(k.Name), k.State)
	return err
}
