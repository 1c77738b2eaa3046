package service

import (
	"fmt"
	"os"
	"runtime"
)

// busyAbove returns what reports whether this host has had more to do in the last minute than it can: a load per
// processor above most. Zero: it never has.
func busyAbove(most float64) func() bool {
	if most <= 0 {
		return nil
	}
	return func() bool {
		text, err := os.ReadFile("/proc/loadavg")
		if err != nil {
			return false
		}
		var load float64
		_, err = fmt.Sscan(string(text), &load)
		return err == nil && load > most*float64(runtime.NumCPU())
	}
}
