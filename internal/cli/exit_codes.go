package cli

import (
	"fmt"
	"strings"
)

// The exit codes.
const (
	exitOK          = 0
	exitError       = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// exitRow says what an exit code means.
type exitRow struct{ code, means string }

// exitTable is what `slipway --help` and the book say of exit codes.
func exitTable() []exitRow {
	return []exitRow{
		{"0", "success"},
		{"1", "an error, which standard error explains; of `doctor`, `doctor data` and `whoami` that something is wrong"},
		{"2", "wrong usage: a command, flag or argument that there is not"},
		{"77", "`gpus selftest` has found nothing to test"},
		{"130", "Ctrl-C has ended the watching; the job goes on"},
		{"the job's own", "`submit`, `jobs watch` and `jobs logs -f` of a job that has ended"},
	}
}

// exitWords are the exit codes for `slipway --help`.
func exitWords() string {
	var b strings.Builder
	b.WriteString("Exit codes:\n")
	for _, row := range exitTable() {
		fmt.Fprintf(&b, "  %-14s %s\n", row.code, row.means)
	}
	return b.String()
}
