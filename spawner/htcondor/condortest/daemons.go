package condortest

import (
	"strings"
	"testing"
)

// KillDaemon ends a daemon of a machine at once, such as condor_schedd on Main. The machine starts it again after some
// seconds.
func (p *Pool) KillDaemon(t testing.TB, name, daemon string) {
	t.Helper()
	if _, err := docker("exec", p.machine(t, name).container, "pkill", "-KILL", "--exact", daemon); err != nil {
		t.Fatal(err)
	}
}

// Processes returns the numbers and command lines of all that runs on a machine.
func (p *Pool) Processes(t testing.TB, name string) []string {
	t.Helper()
	out, err := docker("top", p.machine(t, name).container, "-eo", "pid,args")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(out, "\n")[1:]
}
