package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"slipway/hubapi"
	"slipway/internal/cli/render"
	"slipway/internal/errs"
)

// kernelSwitchCommand is `slipway kernels switch`.
func kernelSwitchCommand(env Env, asJSON *bool) *cobra.Command {
	spec := hubapi.Self
	c := &cobra.Command{
		Use: "switch gpu|cpus|memory|environment VALUE", Short: "Have your next kernels on another slice, such as `switch gpu 3g.71gb`",
		Long: "Say what your next kernels of a kernelspec are to have in place of the usual: a slice of a GPU that it offers, processors,\n" +
			"memory, or an environment to run in. It stays so until you switch back with the value `default`. Kernels that run keep what they have: shut one down and\n" +
			"start it again.",
		Example: "  slipway kernels switch gpu 3g.71gb\n  slipway kernels switch gpu default --kernel python-gpu\n" +
			"  slipway kernels switch environment ana:v1 --kernel python",
		Args: exactly(2, "gpu, cpus, memory or environment, and a value or `default`"),
		RunE: func(c *cobra.Command, args []string) error {
			return runKernelSwitch(c.Context(), env, spec, args[0], args[1], *asJSON)
		},
		ValidArgsFunction: completeSwitch(env),
	}
	c.Flags().StringVar(&spec, "kernel", hubapi.Self, "`NAME` of the kernelspec; self: that of the kernel that asks, elsewhere the one that can be switched so")
	return c
}

// switchParts are what can be switched.
func switchParts() []string { return []string{"gpu", "cpus", "memory", "environment"} }

func completeSwitch(env Env) cobra.CompletionFunc {
	parts := complete(env, func(context.Context, *hubapi.Client) ([]string, error) { return switchParts(), nil }, 1)
	slices := complete(env, func(ctx context.Context, client *hubapi.Client) (all []string, err error) {
		list, err := client.KernelSpecs(ctx)
		for _, k := range list {
			for _, gpu := range k.GPUs {
				all = append(all, described(gpu, k.Name))
			}
		}
		return append(all, hubapi.SwitchDefault), err
	}, 2)
	return func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 1 && args[0] == "gpu" {
			return slices(c, args, typed)
		}
		return parts(c, args, typed)
	}
}

func runKernelSwitch(ctx context.Context, env Env, spec, part, value string, asJSON bool) error {
	if !slices.Contains(switchParts(), part) {
		return errs.Bad("switch", part, "one of "+strings.Join(switchParts(), ", "))
	}
	if value == "" {
		return errs.Bad(part, value, "a value, or "+hubapi.SwitchDefault)
	}
	client, err := connect(env)
	if err != nil {
		return err
	}
	to := map[string]hubapi.KernelSwitch{
		"gpu": {GPU: value}, "cpus": {CPUs: value}, "memory": {Memory: value}, "environment": {Environment: value},
	}[part]
	k, err := client.SwitchKernel(ctx, spec, to)
	if err != nil {
		return err
	}
	if asJSON {
		return env.data(k)
	}
	return tellSwitched(env.Stdout, k)
}

// switchedParts are those of switchParts that are not as usual.
func switchedParts(s hubapi.KernelSwitch) []string {
	is := map[string]string{"gpu": s.GPU, "cpus": s.CPUs, "memory": s.Memory, "environment": s.Environment}
	return slices.DeleteFunc(switchParts(), func(part string) bool { return is[part] == "" })
}

func tellSwitched(w io.Writer, k hubapi.KernelSpec) error {
	what := fmt.Sprintf("%g CPU, %s", k.CPUs, k.Memory)
	if k.GPU != "none" {
		what = k.GPU + ", " + what
	}
	if k.Environment != "" {
		what += ", environment " + render.Printable(k.Environment)
	}
	until := ", as usual"
	var back []string
	for _, part := range switchedParts(k.Switched) {
		back = append(back, fmt.Sprintf("`slipway kernels switch %s %s`", part, hubapi.SwitchDefault))
	}
	switch len(back) {
	case 0:
	case 1:
		until = "; " + back[0] + " goes back to the usual"
	default:
		until = "; " + strings.Join(back, " and ") + " go back to the usual"
	}
	_, err := fmt.Fprintf(w, "your next kernels of %s have %s%s\n"+
		"One that runs keeps what it has: shut it down and start it again (in JupyterLab: Kernel > Shut Down Kernel, then run a cell).\n"+
		"Now: %s\n", render.Printable(k.Name), what, until, render.Printable(k.Available.Words))
	return err
}
