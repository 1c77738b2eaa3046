package spawnertest

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// RunsFile is the file inside a workload that the test's agent gives a line at each start.
const RunsFile = "/var/tmp/slipway-test-runs"

// ReportFile is the file inside a workload in which the test's agent says how it runs, when AgentEnv is Report.
const ReportFile = "/var/tmp/slipway-test-report"

// ForksFile is the file inside a workload in which the test's agent says how many children it could start, when AgentEnv is
// ForkMany with a number.
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
	_, here, _, ok := runtime.Caller(0)
	if !ok {
		t.Fatal("where the sources lie is not known")
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(dir, "slipway"), "./testdata/agent")
	cmd.Dir = filepath.Dir(here)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the test's agent: %v\n%s", err, out)
	}
}
