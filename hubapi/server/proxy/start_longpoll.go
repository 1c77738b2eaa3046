package proxy

import (
	"sync"

	"slipway/spawner"
)

// holdLimit is how many questions about one start are held at a time. A Hub has one; of more, strangers ask, who need
// no credential for it and could otherwise keep as many connections open here as they like.
const holdLimit = 4

// holds count the held questions by session.
type holds struct {
	mu    sync.Mutex // guards count
	count map[spawner.ID]int
}

func newHolds() *holds { return &holds{count: map[spawner.ID]int{}} }

// take reports whether one more may be held; if so, release must be called.
func (h *holds) take(id spawner.ID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.count[id] >= holdLimit {
		return false
	}
	h.count[id]++
	return true
}

func (h *holds) release(id spawner.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.count[id]--; h.count[id] <= 0 {
		delete(h.count, id)
	}
}
