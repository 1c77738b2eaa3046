//go:build linux

package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"slipway/internal/cli/render"
	"slipway/internal/errs"
	"slipway/internal/gpu/fakegpu"
	"slipway/internal/gpu/placement"
	"slipway/internal/gpu/placementsim"
)

// gpusSimulateCommand is `slipway gpus simulate`.
func gpusSimulateCommand(env Env) *cobra.Command {
	var policies []string
	var asJSON bool
	c := &cobra.Command{
		Use: "simulate TRACE", Short: "Replay a trace of requests over a described fleet: what would it serve?",
		Example: "  slipway gpus simulate deploy/bench/gpu/trace.yaml",
		Args:    exactly(1, "the file of a trace"),
		Long: "Replay requests for GPUs, written down or made at random, over a fleet that need not exist, once for each placement\n" +
			"policy, and print what part of them found a place. For planning: which models, modes and layouts would do?\n\n" +
			"  ACCEPTED      of the requests; SLICES: of what they asked for, so that a large request counts as what it is\n" +
			"  USED          of all GPUs, in the mean\n" +
			"  FRAGMENTED    of the free slots of GPUs that are cut as needed: of no use to what this trace asks for\n" +
			"  MADE, REUSED  MIG instances that were made for a request, and those that were there already\n" +
			"  WAIT          of those who found a place, when the trace lets them wait\n\n" +
			"TRACE is YAML, as deploy/bench/gpu/trace.yaml. Models: " + strings.Join(fakegpu.Models(), ", ") + ".",
		RunE: func(_ *cobra.Command, args []string) error { return runGPUsSimulate(env, args[0], policies, asJSON) },
	}
	c.Flags().StringSliceVar(&policies, "policy", policyNames(), "policies, with commas between them")
	c.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON")
	return c
}

func policyNames() []string {
	var names []string
	for _, p := range placement.Policies() {
		names = append(names, string(p))
	}
	return names
}

func runGPUsSimulate(env Env, path string, names []string, asJSON bool) error {
	var policies []placement.Policy
	for _, name := range names {
		if !slices.Contains(policyNames(), name) {
			return errs.Bad("policy", name, "one of "+strings.Join(policyNames(), ", "))
		}
		policies = append(policies, placement.Policy(name))
	}
	trace, err := placementsim.Load(path)
	if err != nil {
		return err
	}
	report, err := trace.Run(placementsim.Models{Find: fakegpu.Model, Names: fakegpu.Models()}, policies)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if asJSON {
		return env.data(report)
	}
	return printSimulation(env, report)
}

func printSimulation(env Env, r placementsim.Report) error {
	fmt.Fprintf(env.Stdout, "%d requests for %d GPUs, load %.2f\n", r.Requests, r.GPUs, r.Load)
	for _, n := range r.Never {
		fmt.Fprintf(env.Stdout, "never, %d times: %s\n", n.Requests, render.Printable(n.Why))
	}
	part := func(f float64) string { return fmt.Sprintf("%.1f%%", 100*f) }
	seconds := func(s float64) string { return time.Duration(s * float64(time.Second)).Round(time.Second).String() }
	var rows [][]string
	for _, p := range r.Policies {
		fragmented := ""
		if p.Fragmentation != nil {
			fragmented = part(*p.Fragmentation)
		}
		rows = append(rows, []string{
			string(p.Policy), part(p.Acceptance), part(p.Weighted), part(p.Utilisation), fragmented,
			fmt.Sprint(p.Made), fmt.Sprint(p.Reused),
			seconds(p.Wait.Mean), seconds(p.Wait.P50), seconds(p.Wait.P95),
		})
	}
	head := []string{"POLICY", "ACCEPTED", "SLICES", "USED", "FRAGMENTED", "MADE", "REUSED", "WAIT", "P50", "P95"}
	return render.Table(env.Stdout, head, rows, "no policy was asked for")
}
