// Package figures writes down what the benchmarks in Go measure, one like the other. It names the kind of a machine,
// and no machine.
package figures

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Machine says of what the figures are, where and when they were taken; no names.
func Machine(what string) string {
	model := runtime.GOARCH
	if cpu, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(cpu)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
			}
		}
	}
	load, _ := os.ReadFile("/proc/loadavg")
	return fmt.Sprintf(
		"**%s**: %s, %s, %d processors, load %.14s", what, time.Now().UTC().Format("2006-01-02 15:04 UTC"), model,
		runtime.NumCPU(), load,
	)
}

// Spread returns the median and, in brackets, the range.
func Spread(values []float64, form string) string {
	s := slices.Sorted(slices.Values(values))
	return fmt.Sprintf(form+" ("+form+" to "+form+")", (s[(len(s)-1)/2]+s[len(s)/2])/2, s[0], s[len(s)-1])
}
