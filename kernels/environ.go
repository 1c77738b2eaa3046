package kernels

import (
	"fmt"
	"regexp"
	"strings"

	"slipway/internal/errs"
)

// What a client may say of a kernel's environment. It is passed on to the kernel, and means nothing to this service: whose the kernel is
// follows from the token alone.
const (
	mostVariables = 100
	longestValue  = 4096
)

var variable = regexp.MustCompile(`^KERNEL_[A-Z0-9_]{1,100}$`)

// checkEnv refuses what must not get into a kernel's environment. Some clients' values end up in shells: nothing there is to start one.
func checkEnv(env map[string]string) error {
	if len(env) > mostVariables {
		return errs.Bad("env", fmt.Sprintf("%d variables", len(env)), fmt.Sprintf("at most %d", mostVariables))
	}
	for name, value := range env {
		switch {
		case !variable.MatchString(name):
			return errs.Bad("env", shorten(name), "names that begin with KERNEL_, of capital letters, digits and underscores")
		case len(value) > longestValue:
			return errs.Bad("env."+name, fmt.Sprintf("%d bytes", len(value)), fmt.Sprintf("at most %d bytes", longestValue))
		case strings.ContainsAny(value, "$`\n\r\x00"):
			return errs.Bad("env."+name, shorten(value), "no dollar signs, backticks, line ends and zero bytes")
		}
	}
	return nil
}

func shorten(s string) string {
	if len(s) > 60 {
		return strings.ToValidUTF8(s[:60], "") + "..."
	}
	return s
}
