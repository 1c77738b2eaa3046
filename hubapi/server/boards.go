package server

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"slipway/spawner"
)

// linger is how long a board is kept at least that nobody reads, for those who come back.
const linger = time.Minute

// boards are the scans that are watched.
type boards struct {
	mu  sync.Mutex
	all map[boardKey]*board
}

type boardKey struct {
	caller spawner.Caller
	scan   string
}

// join returns the board of a scan for one more reader, who leaves it by the function.
func (all *boards) join(s *Server, c spawner.Caller, scan string) (*board, func()) {
	key := boardKey{c, scan}
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.all == nil {
		all.all = map[boardKey]*board{}
	}
	b := all.all[key]
	if b == nil {
		b = &board{Server: s, caller: c, name: scan, key: rand.Text()[:12], points: map[spawner.ID]*told{}}
		all.all[key] = b
	}
	b.readers++
	return b, func() { all.leave(b) }
}

func (all *boards) leave(b *board) {
	all.mu.Lock()
	defer all.mu.Unlock()
	b.readers--
	b.left = time.Now()
}

// tidy drops the boards that nobody has read for some time, until ctx ends.
func (all *boards) tidy(ctx context.Context) {
	t := time.NewTicker(linger)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			all.drop()
		}
	}
}

func (all *boards) drop() {
	all.mu.Lock()
	defer all.mu.Unlock()
	for key, b := range all.all {
		if b.readers == 0 && time.Since(b.left) >= linger {
			delete(all.all, key)
		}
	}
}
