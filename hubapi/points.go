package hubapi

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"slipway/internal/errs"
)

// PointLimit is how many points a scan may have.
const PointLimit = 10_000

// SubmittedLimit is of how many of its jobs, the first, the answer to a submitted scan tells. GET /jobs lists them all.
const SubmittedLimit = 100

// Point is what one job of a scan has of its own.
type Point struct {
	// Parameters are environment variables of the job's, by name; all of them are in SLIPWAY_PARAMETERS too, as one
	// JSON object, and SLIPWAY_POINT is the point's number.
	Parameters map[string]string `json:"parameters"`
	Argv       []string          `json:"argv,omitempty"` // in place of the request's
}

// What a parameter's name and value may be.
const (
	nameLimit  = 64
	valueLimit = 4096 // bytes
)

var parameterName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// taken are names that programs look for: a parameter of such a name would change how the job's programs start.
func taken(name string) bool {
	for _, prefix := range []string{"SLIPWAY_", "LD_", "PYTHON"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return slices.Contains([]string{"PATH", "HOME", "USER", "SHELL", "TMPDIR", "LANG"}, name)
}

// CheckParameter says what is wrong with a point's parameter; field is what the error names.
func CheckParameter(field, name, value string) error {
	switch {
	case !parameterName.MatchString(name) || len(name) > nameLimit:
		return errs.Bad(field, fmt.Sprintf("%.80s", name), "a name of letters, digits and _, as variables have")
	case taken(name):
		return errs.Bad(field, name, name+" has a meaning of its own: choose another name")
	case len(value) > valueLimit:
		return errs.Bad(
			field, fmt.Sprintf("%s=%.20s...", name, value),
			fmt.Sprintf("at most %d bytes a value: put more into a file", valueLimit),
		)
	case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return errs.Bad(field, name+"="+value, "a value without control characters")
	default:
		return nil
	}
}

// ParameterNames returns the names of the points' parameters, sorted.
func ParameterNames(jobs []Job) []string {
	names := map[string]bool{}
	for _, j := range jobs {
		for name := range j.Parameters {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}
