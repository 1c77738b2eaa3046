package spawner

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"slipway/internal/errs"
)

// Caller is who asks. The zero Caller may do nothing.
type Caller struct {
	User     User
	Hub      string // the hub that vouches for User
	Admin    bool   // may see and stop everybody's workloads of Hub
	System   bool   // the service itself: may see everything
	Spawner  bool   // a hub's Spawner: acts for any user of Hub, on sessions
	Workload ID     // set when the request came through that workload's agent
}

// Principal returns the user that c is.
func (c Caller) Principal() Principal { return Principal{c.Hub, c.User} }

// May reports whether c may see and change w. It is the one place that decides so.
func (c Caller) May(w Workload) bool {
	switch {
	case c.System:
		return true
	case c.Spawner:
		return c.Hub != "" && c.Hub == w.Hub && w.Kind.HubServer()
	case c.User == "":
		return false
	case c.Workload != "" && c.Workload.OfJob():
		return c.Workload == w.ID // a job's agent speaks for that job alone
	case c.Hub != w.Hub:
		return false
	case c.Admin && c.Workload == "":
		return true
	default:
		return c.User == w.Owner
	}
}

// MayStart reports whether c may start sessions of user.
func (c Caller) MayStart() bool { return c.Spawner && c.Hub != "" }

// MaySubmit reports whether c may submit jobs as its user.
func (c Caller) MaySubmit() bool {
	return c.User != "" && !c.Spawner && (c.Workload == "" || !c.Workload.OfJob())
}

// MayHaveKernels refuses callers whose kernels there cannot be.
func (c Caller) MayHaveKernels() error {
	if !c.MaySubmit() {
		return errs.New(errs.Forbidden, "kernels are their users', who start them with a token or from a session").
			With("use a token of your own from the Hub")
	}
	return nil
}

// CheckLaunch refuses what cannot name a launch: it travels to the agent and back, and must come back the same.
func CheckLaunch(field, launch string) error {
	if len(launch) > 128 || strings.ContainsFunc(launch, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errs.Bad(field, launch[:min(len(launch), 40)], "at most 128 printable ASCII characters, such as a UUID")
	}
	return nil
}

// nameLimit is the most bytes of a user's, session's or job's name: JupyterHub's database holds 255 characters.
const nameLimit = 255

// CheckName refuses what cannot be a name. Empty names are for the caller to judge.
func CheckName(field, name string) error {
	if len(name) > nameLimit {
		return errs.Bad(field, name[:20]+"...", fmt.Sprintf("at most %d bytes", nameLimit))
	}
	if !utf8.ValidString(name) {
		return errs.Bad(field, name, "valid UTF-8")
	}
	for _, r := range name {
		if unicode.IsControl(r) {
			return errs.Bad(field, name, "no control characters")
		}
	}
	return nil
}
