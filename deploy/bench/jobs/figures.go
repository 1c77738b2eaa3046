package main

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// machine says where and when this runs; no names.
func machine() string {
	model := runtime.GOARCH
	if cpu, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(cpu)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
			}
		}
	}
	load, _ := os.ReadFile("/proc/loadavg")
	return fmt.Sprintf("**jobs**: %s, %s, %d processors, load %.14s", time.Now().UTC().Format("2006-01-02 15:04 UTC"), model, runtime.NumCPU(), load)
}

// spread gives the median and, in brackets, the range.
func spread(values []float64, form string) string {
	s := slices.Sorted(slices.Values(values))
	return fmt.Sprintf(form+" ("+form+" to "+form+")", (s[(len(s)-1)/2]+s[len(s)/2])/2, s[0], s[len(s)-1])
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
