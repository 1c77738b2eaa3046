package feeds

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"slipway/spawner"
)

// linger is how long a feed is kept at least that nobody reads, for those who come back.
const linger = time.Minute

// scanFeeds are the scans that are watched.
type scanFeeds struct {
	mu  sync.Mutex
	all map[scanFeedKey]*scanFeed
}

type scanFeedKey struct {
	caller spawner.Caller
	scan   string
}

// join returns the feed of a scan for one more reader, who leaves it by the function.
func (all *scanFeeds) join(s *Feeds, c spawner.Caller, scan string) (*scanFeed, func()) {
	key := scanFeedKey{c, scan}
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.all == nil {
		all.all = map[scanFeedKey]*scanFeed{}
	}
	b := all.all[key]
	if b == nil {
		b = &scanFeed{Feeds: s, caller: c, name: scan, key: rand.Text()[:12], points: map[spawner.ID]*told{}}
		all.all[key] = b
	}
	b.readers++
	return b, func() { all.leave(b) }
}

func (all *scanFeeds) leave(b *scanFeed) {
	all.mu.Lock()
	defer all.mu.Unlock()
	b.readers--
	b.left = time.Now()
}

// tidy drops the feeds that nobody has read for some time, until ctx ends.
func (all *scanFeeds) tidy(ctx context.Context) {
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

func (all *scanFeeds) drop() {
	all.mu.Lock()
	defer all.mu.Unlock()
	for key, b := range all.all {
		if b.readers == 0 && time.Since(b.left) >= linger {
			delete(all.all, key)
		}
	}
}
