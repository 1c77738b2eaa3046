package service

import (
	"os"
	"path/filepath"
	"slices"

	"slipway/internal/agent/control"
	"slipway/internal/config"
	"slipway/spawner"
)

// stacks returns what finds the software stacks of a session; nil where the site has none.
func (s *service) stacks() func(spawner.Workload) []control.Stack {
	if len(s.cfg.Data.Stacks) == 0 {
		return nil
	}
	return func(w spawner.Workload) (out []control.Stack) {
		for _, c := range s.cfg.Data.Stacks {
			if w.Kind == spawner.Kernel && !slices.Contains(w.Spec.Argv, c.Setup) {
				continue // it is another stack's, or none's
			}
			if s.offers(c, w) {
				out = append(out, s.stackOf(c, w))
			}
		}
		return out
	}
}

// offers says whether a stack is for a session's profile and user.
func (s *service) offers(c config.Stack, w spawner.Workload) bool {
	if len(c.Profiles) > 0 && !slices.Contains(c.Profiles, w.Spec.Profile) {
		return false
	}
	return len(c.AllowedGroups) == 0 || slices.ContainsFunc(
		s.groupsOf(w.Hub, w.Owner), func(group string) bool { return slices.Contains(c.AllowedGroups, group) },
	)
}

// stackOf is a stack as a session has it. One whose repository is known to be dead says so in its title.
func (s *service) stackOf(c config.Stack, w spawner.Workload) control.Stack {
	out := control.Stack{
		Name: c.Name, Title: c.DisplayName, Setup: c.Setup, Python: c.Python, Language: c.Language, Env: c.Env,
	}
	if trouble := s.cvmfs.Trouble(c.Setup); trouble != "" && !w.Remote {
		out.Title += " (" + trouble + ")"
	}
	if c.Logo == "" {
		return out
	}
	logo, err := os.ReadFile(c.Logo)
	if err != nil || len(logo) > config.LogoLimit {
		s.log.Warn("a stack has no logo", "stack", c.Name, "file", c.Logo, "error", err)
		return out
	}
	out.Logo, out.LogoExt = logo, filepath.Ext(c.Logo)
	return out
}
