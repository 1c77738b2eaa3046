package launch

import (
	"context"
	"maps"
	"strings"

	"slipway/spawner"
)

// HomeMounts is what of this host's directories the workloads of a user have. All paths are without links, and such
// that she could not have put another in the place of one.
type HomeMounts struct {
	HomeDir string // in place of the account's; empty: that
	Follows bool   // what is mounted in the home later is to be seen inside
	Areas   []spawner.Area
}

// homeMounts gives a launch its directories. What cannot be had is told, or is the error of the start.
func (m *Maker) homeMounts(ctx context.Context, l *spawner.Launch) error {
	if m.HomeMounts == nil {
		return nil
	}
	h, err := m.HomeMounts(ctx, l.Workload, l.Account, func(message string) { l.Report(message, 0) })
	if err != nil {
		return err
	}
	if h.HomeDir != "" {
		l.Account.HomeDir = h.HomeDir
	}
	l.HomeFollows, l.Areas = h.Follows, h.Areas
	if len(h.Areas) > 0 {
		l.Spec.Env = maps.Clone(l.Spec.Env)
	}
	for _, a := range h.Areas {
		if l.Spec.Env == nil {
			l.Spec.Env = map[string]string{}
		}
		l.Spec.Env[spawner.AreaEnv+strings.ToUpper(a.Name)] = a.Target
	}
	return nil
}
