// Package cudatest builds fakes of libcuda and libnvidia-ml for tests: written for Slipway, in C, and told by
// environment variables what to be and what faults to have (see the sources). They compute the kernels of package cuda
// on the host.
//
// They are for programs of their own: a process reads its environment once and may be crashed by a fault.
package cudatest

import (
	"embed"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"slipway/internal/testenv"
)

//go:embed testdata/*.c testdata/*.h
var sources embed.FS

// UUID is the fake's device, unless FAKE_UUIDS says otherwise.
const UUID = "GPU-11111111-2222-3333-4444-555555555555"

// Build builds libcuda.so.1 and libnvidia-ml.so.1 and gives their directory; with these words defined (NO_LAUNCH: a
// function is missing; OLD: a driver before R470).
func Build(t testing.TB, defined ...string) string {
	t.Helper()
	testenv.Need(t, testenv.CC)
	src, dir := t.TempDir(), t.TempDir()
	if err := os.CopyFS(src, sources); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"libcuda", "libnvidia-ml"} {
		argv := []string{
			"-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden", "-o",
			filepath.Join(dir, name+".so.1"),
		}
		for _, d := range defined {
			argv = append(argv, "-D"+d)
		}
		if out, err := exec.CommandContext(t.Context(), "gcc", append(argv, filepath.Join(src, "testdata", name+".c"))...).CombinedOutput(); err != nil {
			t.Fatalf("build the fake %s: %v\n%s", name, err, out)
		}
	}
	return dir
}
