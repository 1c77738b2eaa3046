package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"slipway/hubapi"
	"slipway/internal/cli/render"
	"slipway/internal/errs"
)

// whichGPU is what the two commands need.
const whichGPU = "GPU: its index, its UUID or the beginning of that"

func gpusDrainCommand(env Env) *cobra.Command {
	asJSON, why := false, ""
	c := &cobra.Command{
		Use: "drain GPU", Short: "Take a GPU out of use: what runs on it goes on, nothing new starts",
		Example: "  slipway gpus drain 0 --why 'the fan is loud'",
		Args:    exactly(1, "a "+whichGPU),
		Long: "Take a GPU out of use until `slipway gpus resume`, for administrators: what runs on it goes on, nothing new starts. A restart\n" +
			"of the service or of the host changes nothing about it. Who did so and --why are shown to administrators.\n\n" + whichGPU + ".",
		RunE: func(c *cobra.Command, args []string) error {
			return runGPUsDrain(c.Context(), env, args[0], why, asJSON)
		},
	}
	c.Flags().StringVar(&why, "why", "", "why, in a line, for the other administrators")
	c.Flags().BoolVar(&asJSON, "json", false, "print the API's JSON")
	return c
}

func gpusResumeCommand(env Env) *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use: "resume GPU", Short: "Put a GPU back into use, which was drained, quarantined or found sick",
		Example: "  slipway gpus resume 0",
		Args:    exactly(1, "a "+whichGPU),
		Long: "Put a GPU back into use, for administrators: its drain ends, and so do all quarantines of its parts. Xids, memory errors and rows\n" +
			"that wait for a reset count as seen: they do not take it out again until the driver reports more.\n\n" +
			"What it does not put right it names: `drain: true` in the configuration, what others run or have made on the GPU, a\n" +
			"GPU that is lost or not in its mode.\n\n" + whichGPU + ".",
		RunE: func(c *cobra.Command, args []string) error { return runGPUsResume(c.Context(), env, args[0], asJSON) },
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the API's JSON")
	return c
}

func runGPUsDrain(ctx context.Context, env Env, name, why string, asJSON bool) error {
	client, err := keeperOf(env, name)
	if err != nil {
		return err
	}
	done, err := client.DrainGPU(ctx, name, why)
	if err != nil {
		return err
	}
	if asJSON {
		return env.data(done)
	}
	return tellDrained(env.Stdout, done)
}

func runGPUsResume(ctx context.Context, env Env, name string, asJSON bool) error {
	client, err := keeperOf(env, name)
	if err != nil {
		return err
	}
	done, err := client.ResumeGPU(ctx, name)
	if err != nil {
		return err
	}
	if asJSON {
		return env.data(done)
	}
	return tellResumed(env.Stdout, done)
}

// keeperOf connects, to do something with a GPU that has a name.
func keeperOf(env Env, name string) (*hubapi.Client, error) {
	if strings.TrimSpace(name) == "" {
		return nil, errs.Bad("GPU", name, "an index, a UUID or the beginning of one, as `slipway gpus --json` shows them")
	}
	return connect(env)
}

func tellDrained(w io.Writer, done hubapi.GPUChange) error {
	g := changedGPU(done)
	held := 0
	for _, s := range g.Slices {
		if s.State == "held" || s.State == "lent" {
			held++
		}
	}
	_, err := fmt.Fprintf(w, "%s is out of use: nothing new starts on it.\n", gpuWords(g))
	switch {
	case err != nil:
		return err
	case held == 0:
		_, err = fmt.Fprintln(w, "Nothing runs on it.")
	case held == 1:
		_, err = fmt.Fprintln(w, "1 session or job holds a part of it and goes on.")
	default:
		_, err = fmt.Fprintf(w, "%d sessions and jobs hold parts of it and go on.\n", held)
	}
	return err
}

func tellResumed(w io.Writer, done hubapi.GPUChange) error {
	words := gpuWords(changedGPU(done))
	if done.Remark == "" {
		_, err := fmt.Fprintf(w, "%s is in use again.\n", words)
		return err
	}
	_, err := fmt.Fprintf(w, "%s is put back. What is left: %s\n", words, render.Printable(done.Remark))
	return err
}

// changedGPU finds the GPU that was changed. One that the driver does not list has no more than its UUID.
func changedGPU(done hubapi.GPUChange) hubapi.GPU {
	for _, g := range done.GPUs.GPUs {
		if g.UUID == done.GPU {
			return g
		}
	}
	return hubapi.GPU{Index: -1, UUID: done.GPU}
}

func gpuWords(g hubapi.GPU) string {
	if g.Index < 0 {
		return render.Printable(g.UUID)
	}
	return fmt.Sprintf("GPU %d (%s, %s)", g.Index, render.Printable(g.Model), render.Printable(g.UUID))
}
