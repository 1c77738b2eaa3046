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

// taken are the ids of what a client has sent. One that lost its connection sends once more what may not have come.
type taken struct {
	has  map[string]bool
	ring []string
	at   int
}

// repeats reports whether a client has sent a message before.
func (s *seat) repeats(v1 []byte) bool {
	m, err := wire.DecodeV1(v1)
	id := m.ID()
	if err != nil || id == "" {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &s.taken
	if t.has == nil {
		t.has = map[string]bool{}
	}
	if t.has[id] {
		return true
	}
	t.has[id] = true
	if len(t.ring) < mostTaken {
		t.ring = append(t.ring, id)
		return false
	}
	delete(t.has, t.ring[t.at])
	t.ring[t.at] = id
	t.at = (t.at + 1) % mostTaken
	return false
}
