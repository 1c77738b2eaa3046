package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"slipway/hubapi"
	"slipway/internal/cli/render"
	"slipway/internal/units"
)

// topCommand is `slipway top`.
func topCommand(env Env) *cobra.Command {
	asJSON, all, every := false, false, 5*time.Second
	c := &cobra.Command{
		Use: "top", Short: "Show what your sessions and jobs use now of CPU, memory and GPU",
		Args: nothingElse,
		Long: "Show what your running sessions and jobs use of CPU, memory and GPU, the busiest first. In a terminal the table is drawn anew\n" +
			"every few seconds until Ctrl-C; elsewhere it is printed once. The numbers are of the last half minute. What was not measured is \"-\".\n\n" +
			"The page of a session or job has the same as pictures over the last 7 days.",
		Example: "  slipway top\n  slipway top --all\n  slipway top --json | jq '.workloads[0].use.memory'",
		RunE: func(c *cobra.Command, _ []string) error {
			if every < time.Second {
				return usageError{fmt.Errorf("--every %s: a second at least", every)}
			}
			return runTop(c.Context(), env, asJSON, all, every)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the API's JSON, once")
	c.Flags().BoolVar(&all, "all", false, "everybody's; for administrators")
	c.Flags().DurationVar(&every, "every", every, "how often the table is drawn anew")
	return c
}

func runTop(ctx context.Context, env Env, asJSON, all bool, every time.Duration) error {
	client, err := connect(env)
	if err != nil {
		return err
	}
	if asJSON {
		list, err := client.Usage(ctx, all)
		if err != nil {
			return err
		}
		return env.data(list)
	}
	err = render.Refresh(ctx, env.Stdout, every, func(ctx context.Context) (string, error) {
		list, err := client.Usage(ctx, all)
		if err != nil {
			return "", err
		}
		return topTable(list, all)
	})
	if ctx.Err() != nil {
		return nil // it was asked to end
	}
	return err
}

// topTable is what runs as a table, below what it comes to.
func topTable(list hubapi.UsageList, all bool) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "%d running, %d waiting\n\n", len(list.Workloads), list.Waiting)
	head := []string{"ID", "NAME", "KIND", "CPU", "OF", "MEMORY", "OF", "SLICE", "GPU", "GPU MEMORY", "UP"}
	if all {
		head = append([]string{"USER"}, head...)
	}
	var rows [][]string
	for _, w := range list.Workloads {
		row := []string{
			w.ID, w.Name, w.Kind, cpuUsed(w.Use.CPU), strconv.FormatFloat(w.CPUs, 'g', -1, 64),
			memoryWords(w.Use.Memory), units.MemoryWords(w.Memory), w.Slice, percent(w.Use.GPU),
			memoryWords(w.Use.GPUMemory), strings.TrimSuffix(render.Ago(w.Up, time.Now()), " ago"),
		}
		if all {
			row = append([]string{w.User}, row...)
		}
		rows = append(rows, row)
	}
	err := render.Table(&b, head, rows, "Nothing runs.")
	return b.String(), err
}

// cpuUsed returns how many processors are used; nil was not measured.
func cpuUsed(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f", *v)
}
