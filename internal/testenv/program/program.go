// Package program builds slipway for tests that run it as people do, and has the words of their scripts.
package program

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/rogpeppe/go-internal/testscript"
)

// Build puts the program into a directory, beside it the one that each job is started with, and returns its path.
func Build(dir string) (string, error) {
	slipway := filepath.Join(dir, "slipway")
	for _, p := range [][2]string{{slipway, "slipway"}, {slipway + "-job", "slipway/internal/runner"}} {
		cmd := exec.Command("go", "build", "-trimpath", "-o", p[0], p[1]) // as deploy/test has just compiled it
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build: %w: %s", err, out)
		}
	}
	return slipway, nil
}

// Exits runs a command of a script that must end with a code: `exits 2 slipway --nonsense`.
func Exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ARGS...")
	}
	code := 0
	err := ts.Exec(args[1], args[2:]...)
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		code = e.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}
