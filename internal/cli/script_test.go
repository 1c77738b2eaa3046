package cli_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"slipway/internal/testenv/program"
)

var update = flag.Bool("update", false, "write what the program prints into the scripts")

// TestScripts runs the built program as people do, against a service that plays its part.
func TestScripts(t *testing.T) {
	slipway, err := program.Build(t.TempDir())
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
			e.Setenv("PATH", filepath.Dir(slipway)+":"+e.Getenv("PATH"))
			e.Setenv("TZ", "UTC")
			e.Setenv("SERVICE", service.url)
			e.Setenv("SOCKET", service.socket)
			return os.WriteFile(filepath.Join(e.WorkDir, "spawner.token"), []byte("0123456789012345678901234567890123456789\n"), 0o600)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": program.Exits, "expand": expand},
	})
}

// expand puts the script's variables into a file.
func expand(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		path := ts.MkAbs(name)
		ts.Check(os.WriteFile(path, []byte(os.Expand(ts.ReadFile(path), ts.Getenv)), 0o600))
	}
}
