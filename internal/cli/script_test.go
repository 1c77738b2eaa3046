package cli_test

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "write what the program prints into the scripts")

// TestScripts runs the built program as people do, against a service that plays its part.
func TestScripts(t *testing.T) {
	program, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", UpdateScripts: *update, RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			service, err := newStubService(filepath.Join("..", "..", "hubapi", "testdata"))
			if err != nil {
				return err
			}
			e.Defer(service.close)
			e.Setenv("PATH", filepath.Dir(program)+":"+e.Getenv("PATH"))
			e.Setenv("TZ", "UTC")
			e.Setenv("SERVICE", service.url)
			e.Setenv("SOCKET", service.socket)
			return os.WriteFile(filepath.Join(e.WorkDir, "spawner.token"), []byte("0123456789012345678901234567890123456789\n"), 0o600)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "expand": expand},
	})
}

// exits runs a command that must end with a code: `exits 2 slipway --nonsense`.
func exits(ts *testscript.TestScript, neg bool, args []string) {
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

// expand puts the script's variables into a file.
func expand(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		path := ts.MkAbs(name)
		ts.Check(os.WriteFile(path, []byte(os.Expand(ts.ReadFile(path), ts.Getenv)), 0o600))
	}
}
