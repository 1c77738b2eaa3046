package kernelspecs

import (
	"sync"
	"time"
)

// briefly remembers for a moment what is asked for again and again, by many at once. The zero value is not ready: see
// newBriefly.
type briefly[K comparable, V any] struct {
	mu    sync.Mutex
	known map[K]moment[V]
	keep  time.Duration
	most  int
}

// moment is a value and until when it counts.
type moment[V any] struct {
	value V
	until time.Time
}

// newBriefly keeps at most so many values, each for so long.
func newBriefly[K comparable, V any](keep time.Duration, most int) *briefly[K, V] {
	return &briefly[K, V]{known: map[K]moment[V]{}, keep: keep, most: most}
}

// get returns what is known of a key, or what find says. It holds nobody up meanwhile: two may find the same at once.
func (b *briefly[K, V]) get(key K, find func() V) V {
	now := time.Now()
	b.mu.Lock()
	m, ok := b.known[key]
	b.mu.Unlock()
	if ok && now.Before(m.until) {
		return m.value
	}
	value := find()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.known) >= b.most {
		clear(b.known)
	}
	b.known[key] = moment[V]{value, time.Now().Add(b.keep)}
	return value
}
