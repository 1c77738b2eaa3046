// Package bases has the files of bases: the squashfs of an image, of which all environments over it keep the first part.
// It packs and measures them, and keeps those parsed that were used last.
//
// It promises that a base in use stays open, whatever becomes of its file. It must not know which bases a library has,
// or what they were made of.
package bases

import (
	"container/list"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"slipway/images/squashfs"
)

// Base is a base that is being used.
type Base struct {
	File  *os.File
	Image *squashfs.Image
	cache *Cache
	users int // counted by cache
	used  time.Time
}

// Release ends a use.
func (b *Base) Release() { b.cache.release(b) }

const (
	// maxOpenBases bounds what parsed bases take: some 60 MB each.
	maxOpenBases = 2
	// IdleAfter is how long one is kept parsed that nobody uses; looked at every LookEvery.
	IdleAfter = 10 * time.Minute
	LookEvery = time.Minute
)

// Cache keeps the bases parsed that were used last: parsing costs some tenths of a second.
type Cache struct {
	mu    sync.Mutex
	order list.List // of digests, the most recently used first
	known map[string]*Base
}

// Acquire returns a parsed base; release it. It parses under the lock: who wants the same base waits for the one that parses it.
func (c *Cache) Acquire(digest, path string) (*Base, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b := c.known[digest]; b != nil {
		b.users++
		b.used = time.Now()
		c.touch(digest)
		return b, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the base: %w", err)
	}
	st, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	image, err := squashfs.Parse(f, st.Size())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read the base %s: %w", digest, err), f.Close())
	}
	b := &Base{File: f, Image: image, cache: c, users: 2, used: time.Now()} // the caller and the cache
	if c.known == nil {
		c.known = map[string]*Base{}
	}
	c.known[digest] = b
	c.touch(digest)
	return b, nil
}

// touch makes digest the most recently used, and lets the one that is too much go.
func (c *Cache) touch(digest string) {
	for e := c.order.Front(); e != nil; e = e.Next() {
		if e.Value == digest {
			c.order.MoveToFront(e)
			return
		}
	}
	c.order.PushFront(digest)
	if c.order.Len() > maxOpenBases {
		c.drop(c.order.Back())
	}
}

func (c *Cache) drop(e *list.Element) {
	digest := c.order.Remove(e).(string)
	b := c.known[digest]
	delete(c.known, digest)
	b.leave()
}

// DropDigest makes the next use open the file again.
func (c *Cache) DropDigest(digest string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for e := c.order.Front(); e != nil; e = e.Next() {
		if e.Value == digest {
			c.drop(e)
			return
		}
	}
}

func (c *Cache) release(b *Base) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b.used = time.Now()
	b.leave()
}

// ForgetIdle drops what nobody has used for some time, and gives the memory back to the host.
func (c *Cache) ForgetIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.order.Len()
	for e := c.order.Back(); e != nil; {
		newer := e.Prev()
		if b := c.known[e.Value.(string)]; b.users == 1 && time.Since(b.used) >= IdleAfter {
			c.drop(e)
		}
		e = newer
	}
	if c.order.Len() < before {
		debug.FreeOSMemory()
	}
}

// Len returns how many bases are parsed.
func (c *Cache) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.known)
}

// Forget drops all that nobody uses.
func (c *Cache) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.order.Len() > 0 {
		c.drop(c.order.Back())
	}
}

// leave is called with the cache's lock held. A file that was only read has nothing to lose when it is closed.
func (b *Base) leave() {
	if b.users--; b.users == 0 {
		_ = b.File.Close()
	}
}
