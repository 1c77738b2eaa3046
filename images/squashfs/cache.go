package squashfs

import (
	"container/list"
	"sync"
)

// cacheBytes bounds the unpacked blocks that an image keeps: enough that reading many small files, whose ends share
// fragment blocks, unpacks each block about once.
const cacheBytes = 16 << 20

// cache keeps the blocks that were used last. What it gives out is never changed.
type cache struct {
	mu    sync.Mutex
	left  int
	order list.List // of *cached, the last used in front
	byKey map[blockKey]*list.Element
}

// blockKey names a block by where it is and how it is stored.
type blockKey struct {
	start uint64
	word  uint32
}

type cached struct {
	key  blockKey
	data []byte
}

func newCache(size int) *cache { return &cache{left: size, byKey: map[blockKey]*list.Element{}} }

func (c *cache) get(k blockKey) ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, found := c.byKey[k]
	if !found {
		return nil, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*cached).data, true
}

func (c *cache) put(k blockKey, data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, found := c.byKey[k]; found {
		return
	}
	c.byKey[k] = c.order.PushFront(&cached{key: k, data: data})
	for c.left -= cap(data); c.left < 0 && c.order.Len() > 1; {
		last := c.order.Remove(c.order.Back()).(*cached)
		delete(c.byKey, last.key)
		c.left += cap(last.data)
	}
}
