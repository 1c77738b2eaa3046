package wire

// Latest remembers the latest values that it was asked about, and no more. It is not safe for concurrent use.
type Latest[V comparable] struct {
	has  map[V]bool
	ring []V
	most int
	at   int // in the ring: the oldest, once it is full
}

// NewLatest makes one that remembers so many values.
func NewLatest[V comparable](most int) *Latest[V] { return &Latest[V]{has: map[V]bool{}, most: most} }

// First reports whether a value comes for the first time, of the latest.
func (l *Latest[V]) First(v V) bool {
	if l.has[v] {
		return false
	}
	l.has[v] = true
	if len(l.ring) < l.most {
		l.ring = append(l.ring, v)
		return true
	}
	delete(l.has, l.ring[l.at])
	l.ring[l.at] = v
	l.at = (l.at + 1) % l.most
	return true
}
