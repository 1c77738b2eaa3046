package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"slipway/deploy/bench/figures"
)

//go:embed compare.py
var others string

// work is the payload of compare.py, for a job: its point's number comes by the environment.
var work = []string{"python3", "-c", `import os; x = int(os.environ["X"]); print(sum((x * i) % 7 for i in range(100_000)) / 7)`}

// compare runs one scan of a small payload with Slipway, submitit's local executor and dask's LocalCluster, in turns.
func compare(ctx context.Context, s *site, o options) error {
	if o.python == "" {
		return nil
	}
	script := filepath.Join(s.dir, "compare.py")
	if err := os.WriteFile(script, []byte(others), 0o600); err != nil {
		return err
	}
	names := []string{"Slipway", "submitit", "dask"}
	took := map[string][]float64{}
	for i := range max(o.rounds/2, 1) {
		for turn := range names {
			name := names[(turn+i)%len(names)]
			var t float64
			var err error
			if name == "Slipway" {
				t, err = s.scan(ctx, o.points, work)
			} else {
				t, err = other(ctx, o, script, name)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			took[name] = append(took[name], t)
		}
	}
	fmt.Printf(
		"\n| seconds for %d points of a small payload, %d at once: median (min to max), %d rounds | |\n|---|---|\n",
		o.points, o.atOnce, len(took["dask"]),
	)
	fmt.Printf("| Slipway: a container each, with limits | %s |\n", figures.Spread(took["Slipway"], "%.1f"))
	fmt.Printf("| submitit's local executor: a process each | %s |\n", figures.Spread(took["submitit"], "%.1f"))
	fmt.Printf(
		"| dask's LocalCluster: %d processes for all, with their start | %s |\n", o.atOnce,
		figures.Spread(took["dask"], "%.1f"),
	)
	return nil
}

// other runs compare.py with one of its tools.
func other(ctx context.Context, o options, script, name string) (float64, error) {
	cmd := exec.CommandContext(ctx, o.python, script, name, strconv.Itoa(o.points), strconv.Itoa(o.atOnce))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
}
