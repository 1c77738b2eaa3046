package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"slipway/hubapi"
	"slipway/internal/cli/render"
	"slipway/internal/errs"
	"slipway/internal/units"
)

// gpusCommand is `slipway gpus`.
func gpusCommand(env Env) *cobra.Command {
	asJSON, format, pool, history := false, "", false, time.Duration(0)
	c := &cobra.Command{
		Use: "gpus", Short: "List the GPUs and what of them is free; drain, resume, simulate, self-test",
		Example: "  slipway gpus\n" +
			"  slipway gpus list --json",
		Args: nothingElse,
		Long: "List every GPU, what of it is free now and who holds what (names: your own, or all for administrators).\n" +
			"What cannot be measured is shown as \"-\".\n\n" +
			"--format prints the same for matchmaking: classad as condor_gpu_discovery -properties does, cms with the\n" +
			"attributes of CMS's job router, glue as GLUE 2.1 AcceleratorEnvironment.\n\n" +
			"--pool lists the GPUs of the site's HTCondor pool instead, by kind: SHARING is whole, mig, or part for one of several that\n" +
			"nothing in hardware keeps apart; what the machines do not tell is \"-\". --history adds what was found before.",
		RunE: func(c *cobra.Command, _ []string) error {
			if pool {
				return runPoolGPUs(c.Context(), env, poolOptions{json: asJSON, format: format, history: history})
			}
			if history != 0 {
				return usageError{fmt.Errorf("--history: only with --pool")}
			}
			return runGPUs(c.Context(), env, asJSON, format)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the API's JSON")
	c.Flags().StringVar(&format, "format", "", "classad, cms or glue; with --pool classad")
	c.Flags().BoolVar(&pool, "pool", false, "the GPUs of the HTCondor pool")
	c.Flags().DurationVar(
		&history, "history", 0, "with --pool: also how many were free over the last time, such as 24h",
	)
	c.AddCommand(gpusDrainCommand(env), gpusResumeCommand(env))
	c.AddCommand(hostGPUCommands(env)...)
	addList(c)
	return c
}

func runGPUs(ctx context.Context, env Env, asJSON bool, format string) error {
	if format != "" && !slices.Contains(hubapi.GPUFormats, format) {
		return usageError{fmt.Errorf("--format %s: one of %s", format, strings.Join(hubapi.GPUFormats, ", "))}
	}
	client, err := connect(env)
	if err != nil {
		return err
	}
	if format != "" {
		text, err := client.PublishGPUs(ctx, format)
		if err == nil {
			_, err = fmt.Fprint(env.Stdout, text)
		}
		return err
	}
	all, err := client.GPUs(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		return env.data(all)
	}
	if all.Problem != "" && len(all.GPUs) == 0 {
		return errs.New(errs.Unavailable, "the GPUs cannot be asked for: %s", all.Problem).With("the administrator looks at `slipway doctor`")
	}
	return printGPUs(env, all)
}

func printGPUs(env Env, all hubapi.GPUs) error {
	if all.Problem != "" {
		fmt.Fprintf(
			env.Stderr, "slipway: %s\n  -> what follows is of %s\n", all.Problem,
			all.Taken.Local().Format(time.DateTime),
		)
	}
	if all.Simulated {
		fmt.Fprintln(env.Stderr, "These GPUs are simulated: no such hardware exists here.")
	}
	var gpus, offers, slices [][]string
	for _, g := range all.GPUs {
		condition := g.Condition
		if g.Why != "" {
			condition += ": " + g.Why
		}
		gpus = append(gpus, []string{
			fmt.Sprint(g.Index), g.Model, g.Mode, g.Isolation, memoryWords(&g.Memory), memoryWords(g.MemoryUsed),
			percent(g.Utilisation), condition,
		})
		for _, s := range g.Slices {
			slices = append(slices, sliceRow(g, s))
		}
	}
	for _, o := range all.Offers {
		offers = append(offers, []string{o.Name, fmt.Sprint(o.Free), fmt.Sprint(o.Most), o.Isolation})
	}
	if err := render.Table(env.Stdout, []string{"GPU", "MODEL", "MODE", "ISOLATION", "MEMORY", "USED", "BUSY", "CONDITION"}, gpus, "This site has no GPUs."); err != nil || len(gpus) == 0 {
		return err
	}
	fmt.Fprintln(env.Stdout)
	if err := render.Table(env.Stdout, []string{"ASK FOR", "FREE", "OF", "ISOLATION"}, offers, "Nothing can be asked for now."); err != nil || len(slices) == 0 {
		return err
	}
	fmt.Fprintln(env.Stdout)
	return render.Table(
		env.Stdout,
		[]string{"GPU", "PLACE", "SLICE", "STATE", "USER", "WORKLOAD", "FOR", "BUSY", "USED", "PEAK", "REMARK"}, slices,
		"",
	)
}

func sliceRow(g hubapi.GPU, s hubapi.GPUSlice) []string {
	since := ""
	if s.Since != nil {
		since = strings.TrimSuffix(render.Ago(*s.Since, time.Now()), " ago")
	}
	return []string{
		fmt.Sprint(g.Index), s.Place, s.Name, s.State, s.User, s.Workload, since, percent(s.Use.SM),
		memoryWords(s.Use.Memory), memoryWords(s.Use.Peak), sliceRemark(s),
	}
}

// sliceRemark is what one should know of a slice at a glance.
func sliceRemark(s hubapi.GPUSlice) string {
	var words []string
	add := func(when bool, text string) {
		if when {
			words = append(words, text)
		}
	}
	add(s.Why != "", s.Why)
	if s.Until != nil {
		add(true, "until "+s.Until.Local().Format(time.DateTime))
	}
	add(s.Borrower != "", "lent to "+s.Borrower)
	if s.Use.Idle != nil {
		add(true, "idle for "+strings.TrimSuffix(render.Ago(*s.Use.Idle, time.Now()), " ago"))
	}
	add(s.Use.Hint != "", s.Use.Hint)
	add(s.State == "held" && s.Use.Unmeasured != "", s.Use.Unmeasured)
	return strings.Join(words, "; ")
}

// memoryWords returns an amount of memory; nil is not known.
func memoryWords(n *int64) string {
	if n == nil {
		return "-"
	}
	return units.MemoryWords(*n)
}

// percent returns a share; nil was not measured.
func percent(p *float64) string {
	if p == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", *p)
}
