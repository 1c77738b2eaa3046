package cli

import (
	"slices"
	"time"

	"slipway/images"
	"slipway/spawner"
)

// openLibrary opens the environments and the keys that sign them. The keys lie outside the records, in a directory of their own.
func (s *service) openLibrary() error {
	c := s.cfg.Environments
	keys, err := openKeys(s.cfg, s.log)
	if err != nil {
		return err
	}
	s.freezer = &freezer{capture: s.capture, principal: s.principal, groups: s.groupsOf}
	s.library, err = images.Open(images.Config{
		Dir: s.path("environments"), Logger: s.log, Strip: c.Strip, Keys: keys, Version: version, Quota: int64(c.Quota), Keep: time.Duration(c.Keep),
		InUse: s.freezer.inUse,
	})
	s.freezer.library = s.library
	return err
}

// groupsOf gives the groups in which a user shares environments. A group lists users by their names, those of other realms than the
// site's by @realm/name.
func (s *service) groupsOf(hub string, user spawner.User) []string {
	var out []string
	for name, members := range s.cfg.Environments.Groups {
		if slices.Contains(members, s.principal(hub, user)) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
