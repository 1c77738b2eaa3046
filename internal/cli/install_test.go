package cli

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Agents run the build for workloads. Where it is missing they have the host's, and the log says what that means.
func TestInstallSelfTest(t *testing.T) {
	for name, test := range map[string]struct{ inside, want, says string }{
		"both":     {"echo inside", "echo inside", ""},
		"the host": {"", "echo host", "slipway-gpu-inside"},
	} {
		helper, bin := helpers(t, "echo host", test.inside), filepath.Join(t.TempDir(), "bin")
		for range 2 { // a service starts more than once
			var log strings.Builder
			if err := installSelfTest(helper, bin, slog.New(slog.NewTextHandler(&log, nil))); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(filepath.Join(bin, gpuHelper))
			if err != nil || !strings.Contains(string(text), test.want) || strings.Contains(log.String(), "older than this host") != (test.says != "") || !strings.Contains(log.String(), test.says) {
				t.Errorf("%s: %s, %v, log %s", name, text, err, &log)
			}
		}
		if all, err := os.ReadDir(bin); err != nil || len(all) != 1 {
			t.Errorf("%s: %v, %v", name, all, err)
		}
	}
}
