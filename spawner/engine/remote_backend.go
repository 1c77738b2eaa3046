package engine

import "slipway/spawner"

// at names a backend to people.
func (m *Manager) at(backend string) string {
	if r, ok := m.backends[backend].(spawner.Remote); ok {
		return r.Title()
	}
	return backend
}
