package spawnertest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// RunsFile is the file inside a workload that the test's agent gives a line at each start.
const RunsFile = "/var/tmp/slipway-test-runs"

// ReportFile is the file inside a workload in which the test's agent says how it runs, when AgentEnv is Report.
const ReportFile = "/var/tmp/slipway-test-report"

// ForksFile is the file inside a workload in which the test's agent says how many children it could start, when
// AgentEnv is ForkMany with a number.
const ForksFile = "/var/tmp/slipway-test-forks"

// What AgentEnv may ask of the program that BuildAgent makes; Fake does not know these.
const (
	Report   = "report" // write ReportFile
	Hog      = "hog"    // use 1 GiB of memory
	ForkMany = "fork "  // with a number: start so many children
)

// BuildAgent puts a static program into dir, as `slipway`, that stands in for the agent in tests of real backends.
func BuildAgent(t testing.TB, dir string) {
	t.Helper()
	program, err := agent()
	if err != nil {
		t.Fatal(err)
	}
	// Another process writes it: a child that this one starts meanwhile would hold it open, and what is open for
	// writing cannot be run.
	cmd := exec.Command("install", "--mode=755", "/dev/stdin", filepath.Join(dir, "slipway"))
	cmd.Stdin = bytes.NewReader(program)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// agent returns the program, which is built once for all tests of a package: a build takes a processor for a second.
var agent = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "agent")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "slipway")
	cmd := exec.Command(
		"go", "build", "-trimpath", "-ldflags=-s -w", "-o", name, "slipway/spawner/spawnertest/testdata/agent",
	)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the test's agent: %w\n%s", err, out)
	}
	return os.ReadFile(name)
})
