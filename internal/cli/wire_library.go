//go:build linux

package cli

import (
	"time"

	"slipway/images"
	"slipway/internal/version"
)

// openLibrary opens the environments and the keys that sign them. The keys lie outside the records, in a directory of
// their own.
func (s *service) openLibrary() error {
	c := s.cfg.Environments
	keys, err := openKeys(s.cfg, s.log)
	if err != nil {
		return err
	}
	s.freezer = &freezer{capture: s.capture, principal: s.principal, groups: s.groupsOf, log: s.log}
	s.library, err = images.Open(images.Config{
		Dir: s.path("environments"), Logger: s.log, Strip: c.Strip, Keys: keys, Version: version.Release, Quotas: s.quotasOf, MaxFiles: c.MaxFiles,
		Keep: time.Duration(c.Keep), InUse: s.freezer.inUse, Try: s.try, Fetch: s.fetcher(),
	})
	if err != nil {
		return err
	}
	s.freezer.library = s.library
	return s.openPlaces()
}
