//go:build linux

package cli

import (
	"context"
	"io"

	"slipway/internal/agent/control"
	"slipway/spawner"
)

// openLibrary opens the environments and the keys that sign them. The keys lie outside the records, in a directory of
// their own.
func (s *service) openLibrary() error {
	keys, err := openKeys(s.cfg, s.log)
	if err != nil {
		return err
	}
	s.freezer, err = openFreezer(freezerConfig{
		Site: s.cfg, Keys: keys, Account: s.account, Principal: s.principal, GroupsOf: s.groupsOf, QuotasOf: s.quotasOf, Try: s.try,
		Changes: func(id spawner.ID) func(context.Context, control.ChangesRequest) (io.ReadCloser, error) {
			return agents{s.links}.client(id).Changes
		},
		Logger: s.log,
	})
	if err == nil {
		s.library = s.freezer.library
	}
	return err
}
