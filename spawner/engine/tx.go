package engine

// View is what may be read while the lock is held for it. It must not outlive the function that began it.
type View struct{ m *Manager }

// Tx is a View in which records are changed too: each change is decided and saved before the next one is decided. It is
// the one way to change a record.
type Tx struct{ View }

// View waits until nothing changes in memory. The caller ends it, and asks the Manager nothing meanwhile.
func (m *Manager) View() View {
	m.mu.RLock()
	return View{m}
}

// End lets others change what was looked at.
func (v View) End() { v.m.mu.RUnlock() }

// Begin waits for the turn to change records. The caller ends it, and asks the Manager nothing meanwhile.
func (m *Manager) Begin() Tx {
	m.mu.Lock()
	return Tx{View{m}}
}

// End ends the turn.
func (tx Tx) End() { tx.m.mu.Unlock() }
