package engine

import "slipway/spawner"

// At names a backend to people.
func (m *Manager) At(backend string) string {
	if r, ok := m.backends[backend].(spawner.Remote); ok {
		return r.Title()
	}
	return backend
}
