package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/gpu/placementsim"
)

// simulation runs `slipway gpus simulate` on a trace.
func simulation(t *testing.T, trace string, flags ...string) (code int, out, errs string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trace.yaml")
	if err := os.WriteFile(path, []byte(trace), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	env := Env{Getenv: func(string) string { return "" }, Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr}
	code = Run(t.Context(), append([]string{"gpus", "simulate", path}, flags...), env)
	return code, stdout.String(), stderr.String()
}

const smallTrace = `
fleet: [{model: A30, mode: mig}, {model: L40S, mode: whole}]
patience: 1h
requests:
  - {at: 0s, duration: 1h, gpu: 4g.24gb}
  - {at: 30m, duration: 30m, gpu: 2g}
  - {at: 40m, duration: 20m, gpu: shared}
`

func TestGPUsSimulate(t *testing.T) {
	code, out, _ := simulation(t, smallTrace)
	want := `3 requests for 2 GPUs, load 0.94
never, 1 times: shared asked, and no GPU is shared by time slicing; there is mig, whole
POLICY  ACCEPTED  SLICES  USED   FRAGMENTED  MADE  REUSED  WAIT   P50  P95
frag    66.7%     100.0%  41.7%  50.0%       2     0       15m0s  0s   30m0s
pack    66.7%     100.0%  41.7%  50.0%       2     0       15m0s  0s   30m0s
first   66.7%     100.0%  41.7%  50.0%       2     0       15m0s  0s   30m0s
`
	if diff := cmp.Diff(want, out); code != 0 || diff != "" {
		t.Errorf("%d %s", code, diff)
	}
}

func TestGPUsSimulateAsJSON(t *testing.T) {
	code, out, _ := simulation(t, smallTrace, "--json", "--policy", "pack,first")
	var r placementsim.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 {
		t.Fatalf("%d %v\n%s", code, err, out)
	}
	if len(r.Policies) != 2 || r.Policies[0].Policy != "pack" || r.Policies[0].Accepted != 2 || r.GPUs != 2 || len(r.Never) != 1 {
		t.Errorf("%+v", r)
	}
}

func TestGPUsSimulateRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		trace string
		flags []string
		code  int
		want  string
	}{
		"policy":   {smallTrace, []string{"--policy", "best"}, 1, "one of frag, pack, first"},
		"trace":    {"fleet: [{model: H300, mode: mig}]\nrequests: [{at: 0s, duration: 1h, gpu: 1g}]", nil, 1, "H200"},
		"YAML":     {"fleet: {", nil, 1, "trace.yaml"},
		"too much": {smallTrace, []string{"more"}, 2, "the file of a trace"},
	} {
		if code, out, errs := simulation(t, tt.trace, tt.flags...); code != tt.code || !strings.Contains(errs, tt.want) || out != "" {
			t.Errorf("%s: %d %q %q", name, code, out, errs)
		}
	}
}
