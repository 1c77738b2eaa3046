package kernels

import (
	"fmt"
	"regexp"

	"slipway/internal/errs"
	"slipway/kernels/wire"
)

// What a client may say of a kernel's environment. It is passed on to the kernel, and means nothing to this service:
// whose the kernel is follows from the token alone.
const mostVariables = 100

var variable = regexp.MustCompile(`^` + wire.VariablePrefix + `[A-Z0-9_]{1,100}$`)

// checkEnv refuses what must not get into a kernel's environment.
func checkEnv(env map[string]string) error {
	if len(env) > mostVariables {
		return errs.Bad("env", fmt.Sprintf("%d variables", len(env)), fmt.Sprintf("at most %d", mostVariables))
	}
	for name, value := range env {
		switch {
		case !variable.MatchString(name):
			return errs.Bad(
				"env", errs.Shorten(name),
				"names that begin with "+wire.VariablePrefix+", of capital letters, digits and underscores",
			)
		case len(value) > wire.LongestValue:
			return errs.Bad(
				"env."+name, fmt.Sprintf("%d bytes", len(value)), fmt.Sprintf("at most %d bytes", wire.LongestValue),
			)
		case !wire.PlainValue(value):
			return errs.Bad("env."+name, errs.Shorten(value), "no dollar signs, backticks, line ends and zero bytes")
		}
	}
	return nil
}
