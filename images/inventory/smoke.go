package inventory

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"slipway/internal/errs"
)

//go:embed smoke.py
var smokeScript string

// Smoke is a command that imports modules within an environment.
type Smoke struct {
	Argv    []string      // to be run in the environment, without the user's home
	Modules []string      // that it imports, those of Python's own library aside
	Skipped []string      // names that are no module's, or too many; bounded
	Limit   time.Duration // by which it ends; give it some seconds more to start
}

// The bounds of a smoke run.
const (
	maxModules  = 300
	smokeEach   = time.Minute
	smokeTotal  = 5 * time.Minute
	smokeMarker = "slipway-smoke: "
)

var moduleName = regexp.MustCompile(`^[\pL_][\pL\pN_]*(\.[\pL_][\pL\pN_]*)*$`)

// SmokePlan makes the command that imports what a session's kernels had imported, by the interpreter that ran them, as
// they knew its path; empty: by the environment's own. Of a name with dots the first part is imported: kernels load
// thousands of the others.
func SmokePlan(i Inventory, program string, imported []string) (Smoke, error) {
	program, err := interpreter(i, program)
	if err != nil {
		return Smoke{}, err
	}
	s := Smoke{Limit: smokeTotal}
	for _, name := range imported {
		top, _, _ := strings.Cut(name, ".")
		switch {
		case len(name) > maxText || !moduleName.MatchString(name):
			s.Skipped = append(s.Skipped, word(name))
		case !strings.HasPrefix(top, "_"):
			s.Modules = append(s.Modules, top)
		}
	}
	slices.Sort(s.Modules)
	s.Modules = slices.Compact(s.Modules)
	if n := min(len(s.Modules), maxModules); n < len(s.Modules) {
		s.Skipped, s.Modules = append(s.Skipped, s.Modules[n:]...), s.Modules[:n]
	}
	slices.Sort(s.Skipped)
	s.Skipped = slices.Compact(s.Skipped)
	s.Skipped = s.Skipped[:min(len(s.Skipped), maxFirst)]
	s.Argv = append([]string{program, "-s", "-c", smokeScript, seconds(smokeEach), seconds(smokeTotal)}, s.Modules...)
	return s, nil
}

// interpreter makes sure that the environment has a program that may be a Python: one of those found, or another name
// beside it.
func interpreter(i Inventory, program string) (string, error) {
	own, ok := i.Default()
	switch {
	case program == "" && ok:
		return own.Path, nil
	case program == "":
		return "", errs.New(errs.Conflict, "the environment has no Python").
			With("nothing that a kernel imports can be tried")
	}
	if path.IsAbs(program) && slices.ContainsFunc(i.Python, func(p Interpreter) bool { return path.Dir(p.Path) == path.Dir(program) }) {
		return program, nil
	}
	return "", errs.New(
		errs.Conflict, "the Python %.200s, by which kernels ran, is not in the environment", text(program),
	).With("install Python, or make the virtual environment, outside of the home and of what is mounted")
}

func seconds(d time.Duration) string { return strconv.Itoa(int(d.Seconds())) }

// SmokeResult is what a smoke run found.
type SmokeResult struct {
	Python   string         `json:"python"`             // version that ran
	Modules  int            `json:"modules"`            // that were tried
	Failures []SmokeFailure `json:"failures,omitempty"` // in the order of the plan
}

// SmokeFailure is a module that could not be imported.
type SmokeFailure struct {
	Module  string      `json:"module"`
	Kind    FailureKind `json:"kind"`
	Message string      `json:"message,omitempty"`
}

// FailureKind says why a module could not be imported.
type FailureKind string

// The kinds. A driver that is missing is no fault of the environment: only hosts with a GPU have it.
const (
	FailMissing   FailureKind = "missing"   // there is no such module
	FailError     FailureKind = "error"     // importing it raised an error
	FailDriver    FailureKind = "driver"    // it needs the GPU's driver
	FailCrash     FailureKind = "crash"     // the interpreter died
	FailTimeout   FailureKind = "timeout"   // it took too long
	FailUnchecked FailureKind = "unchecked" // the run's time was over before it was tried
)

// Broken returns the failures that say the environment lacks something.
func (r SmokeResult) Broken() []SmokeFailure {
	var out []SmokeFailure
	for _, f := range r.Failures {
		if f.Kind != FailDriver && f.Kind != FailUnchecked {
			out = append(out, f)
		}
	}
	return out
}

// Lines tells the failures to people, those that are the environment's fault first.
func (r SmokeResult) Lines() []string {
	var broken, others []string
	for _, f := range r.Failures {
		switch f.Kind {
		case FailDriver:
			others = append(others, fmt.Sprintf(
				"%s could not be tried: it needs a GPU's driver, and there was none where it was tried (%s)", f.Module,
				f.why(),
			))
		case FailUnchecked:
			others = append(others, fmt.Sprintf("%s could not be tried: %s", f.Module, f.why()))
		default:
			broken = append(broken, "cannot import "+f.Module+": "+f.why())
		}
	}
	return append(broken, others...)
}

var ofGPU = regexp.MustCompile(`(?i)cuda|nvidia|cudnn|cublas|nccl`)

// why is the message without what is plain from the rest. What is about GPUs says that none was there: with one it may
// be otherwise.
func (f SmokeFailure) why() string {
	words := strings.TrimPrefix(strings.TrimPrefix(f.Message, "ImportError: "), "ModuleNotFoundError: ")
	if f.Kind == FailMissing {
		words = "there is no such module in it; perhaps it lies in the home or beside the notebook"
	}
	if f.Kind == FailError && ofGPU.MatchString(words) {
		words += " (tried without a GPU)"
	}
	return words
}

// ParseSmoke reads what the command printed. Other programs may have written around its line; the environment may lie.
func ParseSmoke(output []byte) (SmokeResult, error) {
	at := bytes.LastIndex(output, []byte(smokeMarker))
	if at < 0 {
		return SmokeResult{}, errs.New(errs.Unavailable, "read the smoke run's answer: there is none")
	}
	l, _, _ := bytes.Cut(output[at+len(smokeMarker):], []byte("\n"))
	var r SmokeResult
	if err := json.Unmarshal(l, &r); err != nil {
		return SmokeResult{}, errs.New(errs.Unavailable, "read the smoke run's answer: %w", err)
	}
	r.Python, r.Failures = word(r.Python), r.Failures[:min(len(r.Failures), maxModules)]
	for i := range r.Failures {
		f := &r.Failures[i]
		f.Module, f.Message = word(f.Module), word(f.Message)
		if !slices.Contains([]FailureKind{FailMissing, FailError, FailDriver, FailCrash, FailTimeout, FailUnchecked}, f.Kind) {
			f.Kind = FailError
		}
	}
	return r, nil
}
