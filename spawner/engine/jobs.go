package engine

import (
	"slices"
)

// JobBackends returns the backends that jobs may name.
func (m *Manager) JobBackends() []string {
	var names []string
	for name := range m.backends {
		if name != m.cfg.Sessions || m.IsRemote(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
