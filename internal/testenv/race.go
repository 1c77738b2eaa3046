//go:build race

package testenv

import (
	"os"
	"syscall"
)

// EndAtOnce is for a TestMain whose program tests start again and again: with the race detector each would last a
// second after its end. Who starts it may have left it no environment, so the program begins anew with one that says
// otherwise.
func EndAtOnce() {
	const variable = "GORACE"
	if os.Getenv(variable) == "" && os.Setenv(variable, "atexit_sleep_ms=0") == nil {
		_ = syscall.Exec("/proc/self/exe", os.Args, os.Environ()) // where it cannot it only lasts longer
	}
}
