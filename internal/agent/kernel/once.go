package kernel

import "slipway/kernels/wire"

const mostTaken = 1 << 13 // ids of messages that are remembered of one client

// forget has a client that begins anew get nothing of what was kept for it.
func (k *Kernel) forget(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.seats[name]
	if s == nil || name == "" {
		return
	}
	if s.at != nil {
		s.at.end()
		s.at = nil
		k.attached--
	}
	k.remove(s)
}

// repeats reports whether a client has sent a message before: one that lost its connection sends once more what may not have come.
func (s *seat) repeats(v1 []byte) bool {
	m, err := wire.DecodeV1(v1)
	id := m.ID()
	if err != nil || id == "" {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken == nil {
		s.taken = wire.NewLatest[string](mostTaken)
	}
	return !s.taken.First(id)
}
