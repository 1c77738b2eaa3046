package doctor

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway/internal/errs"
	"slipway/internal/programs"
	"slipway/internal/version"
)

// helpers puts programs of a line of shell into a directory: the host's helper, and the one for workloads. An empty
// line is none.
func helpers(t *testing.T, host, inside string) (helper string) {
	t.Helper()
	dir := t.TempDir()
	for name, line := range map[string]string{programs.GPUHelper: host, programs.GPUHelperInside: inside} {
		if line == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+line+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, programs.GPUHelper)
}

func TestHelpersFit(t *testing.T) {
	const (
		good      = `[ "$*" = "version --json" ] && echo '{"version":"1.2.3","revision":"abc","bindings":"v0.13.4-0","inside":false}'`
		goodThere = `echo '{"version":"1.2.3","revision":"abc","inside":true}'`
		unstamped = `echo '{"version":"1.2.3","inside":true}'`
	)
	for name, test := range map[string]struct{ host, inside, says string }{
		"one build":               {good, goodThere, ""},
		"one revision is unknown": {good, unstamped, ""},
		"no helper":               {"", goodThere, "slipway-gpu"},
		"no build for workloads":  {good, "", "slipway-gpu-inside is not there"},
		"an older helper":         {`echo '{"version":"1.2.2"}'`, goodThere, "slipway-gpu is of version 1.2.2, and this program of version 1.2.3 abc"},
		"another revision":        {good, `echo '{"version":"1.2.3","revision":"def","inside":true}'`, "slipway-gpu-inside is of version 1.2.3 def"},
		"the host's for both":     {good, `echo '{"version":"1.2.3","revision":"abc"}'`, "slipway-gpu-inside is the other of two builds"},
		"exchanged":               {goodThere, good, "slipway-gpu is the other of two builds"},
		"no JSON":                 {"echo slipway-gpu 1.0, go-nvml v0.13", goodThere, "does not say what it was built from"},
		"it does not start":       {`echo line >&2; echo "version 'GLIBC_2.38' not found" >&2; exit 1`, goodThere, "exit status 1: version 'GLIBC_2.38' not found"},
	} {
		helper := helpers(t, test.host, test.inside)
		err := helpersFit(t.Context(), helper, version.Build{Version: "1.2.3", Revision: "abc"})
		if test.says == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if e, ok := errors.AsType[*errs.Error](err); !ok || !strings.Contains(e.Message, test.says) || e.Remedy == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
