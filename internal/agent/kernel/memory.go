package kernel

import (
	"runtime/debug"
	"sync"
	"time"
)

const (
	freeBytes = 4 << 20         // of large messages that are not needed any more: worth a collection
	freeAfter = 2 * time.Second // for what comes of the same output
)

// memory gives memory back to the system soon after large messages: it counts to what the kernel may have, and an agent
// that says little more would keep it for minutes.
type memory struct {
	mu    sync.Mutex
	bytes int
	later *time.Timer // nil: nothing is to be given back
}

// free says that so many bytes of large messages are not needed any more.
func (m *memory) free(bytes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bytes += bytes
	if m.bytes >= freeBytes && m.later == nil {
		m.later = time.AfterFunc(freeAfter, m.giveBack)
	}
}

func (m *memory) giveBack() {
	m.mu.Lock()
	m.bytes, m.later = 0, nil
	m.mu.Unlock()
	debug.FreeOSMemory()
}

func (m *memory) stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.later != nil {
		m.later.Stop()
	}
}
