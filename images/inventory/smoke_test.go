package inventory

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/errs"
	"slipway/internal/testenv"
)

func python(path string) Inventory {
	return Inventory{Python: []Interpreter{{Path: path, Default: true}}}
}

func TestSmokePlan(t *testing.T) {
	many := []string{"numpy", "numpy.linalg", "_private", "été", "a.b.c", "", "--help", "x; rm", "os.", strings.Repeat("a", 600), "__main__"}
	s, err := SmokePlan(python("/v/bin/python"), "", many)
	must(t, err)
	if d := cmp.Diff([]string{"a", "numpy", "été"}, s.Modules); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"", "--help", strings.Repeat("a", 512) + "...", "os.", "x; rm"}, s.Skipped); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"/v/bin/python", "-s", "-c", smokeScript, "60", "300", "a", "numpy", "été"}, s.Argv); d != "" {
		t.Error(d)
	}
	if _, err := SmokePlan(Inventory{}, "", many); !errs.Is(err, errs.Conflict) {
		t.Error(err)
	}
}

// The script is run by a real Python; modules that fail in every way lie in a directory of the test's.
func TestSmokeScript(t *testing.T) {
	testenv.Need(t, testenv.Hub6)
	t.Parallel()
	program := filepath.Join(testenv.Cache(), "hubs/6/bin/python3")
	s, err := SmokePlan(python(program), "", []string{"json", "broken", "absent_module", "needs_driver", "crashes", "talks", "hangs", "misses_other"})
	must(t, err)
	s.Argv[4] = "4"
	cmd := exec.Command(s.Argv[0], s.Argv[1:]...)
	modules, err := filepath.Abs("testdata/smoke")
	must(t, err)
	cmd.Env = append(cmd.Environ(), "PYTHONPATH="+modules, "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r, err := ParseSmoke(out)
	must(t, err)
	want := []SmokeFailure{
		{"absent_module", FailMissing, "ModuleNotFoundError: No module named 'absent_module'"},
		{"broken", FailError, "ValueError: on purpose"},
		{"crashes", FailCrash, "ended by signal 6"},
		{"hangs", FailTimeout, "took more than 4 s"},
		{"misses_other", FailError, "ModuleNotFoundError: No module named 'another_module'"},
		{"needs_driver", FailDriver, "ImportError: libcuda.so.1: cannot open shared object file: No such file or directory"},
	}
	if d := cmp.Diff(want, r.Failures); d != "" {
		t.Error(d)
	}
	if len(r.Broken()) != 5 || r.Modules < 7 || !strings.HasPrefix(r.Python, "3.") {
		t.Errorf("%+v", r)
	}
}

func TestParseSmoke(t *testing.T) {
	good := smokeMarker + `{"python": "3.13.5", "modules": 2, "failures": [{"module": "x", "kind": "odd", "message": "a\nb"}]}`
	want := SmokeResult{Python: "3.13.5", Modules: 2, Failures: []SmokeFailure{{"x", FailError, `"a\nb"`}}}
	for in, ok := range map[string]bool{
		good: true, "INFO: starting\n" + good + "\nbye\n": true, smokeMarker + "{}\n" + good: true,
		"": false, smokeMarker: false, smokeMarker + "{": false, "slipway-smoke {}": false,
	} {
		got, err := ParseSmoke([]byte(in))
		if ok != (err == nil) {
			t.Errorf("%q: %v", in, err)
		}
		if d := cmp.Diff(want, got); ok && d != "" {
			t.Errorf("%q: %s", in, d)
		}
	}
}

func FuzzParseSmoke(f *testing.F) {
	f.Add([]byte(smokeMarker + `{"python": "3.13.5", "modules": 2, "failures": [{"module": "x", "kind": "odd", "message": "a\nb"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ParseSmoke(b)
		if err != nil {
			return
		}
		sound(t, r.Python)
		for _, x := range r.Failures {
			sound(t, x.Module, x.Message)
		}
	})
}
