package cli

import (
	"fmt"
	"os"
	"runtime"
)

// mostLoad is the load per processor from which on nothing is done on this host that can wait.
const mostLoad = 16

// busy reports whether this host has had more to do in the last minute than it can.
func busy() bool {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return false
	}
	var load float64
	_, err = fmt.Sscan(string(text), &load)
	return err == nil && load > mostLoad*float64(runtime.NumCPU())
}
