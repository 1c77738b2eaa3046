package secretscan

import (
	"bytes"
	"encoding/binary"
)

// anchor is a literal that every secret of some kinds holds, and the check of what stands around it.
type anchor struct {
	text  string
	key   string                           // four bytes of text that are rare in ordinary files
	check func(v view, at int) (hit, bool) // at is where text begins
}

// index finds anchors in one pass. Each key of four bytes holds three pairs of bytes, and one of them begins at a
// multiple of three, wherever the key stands. So every third pair is looked up in a table and nothing else is read: the
// loads do not wait for each other, which makes this several times faster than a search that skips by what it saw.
type index struct {
	hot     [1 << 16]uint8 // the pairs of bytes that stand in a key
	slots   [slotCount]slot
	anchors []anchor
}

// slot is one entry of a hash table with open addressing.
type slot struct {
	key    uint32
	anchor uint8 // counted from 1; 0 is an empty slot
	back   int8  // from the key to the beginning of the anchor's text
}

const slotCount = 4096

func newIndex(anchors []anchor) *index {
	x := &index{anchors: anchors}
	for i, a := range anchors {
		if a.key == "" {
			x.addShort(i, a.text)
			continue
		}
		x.add([]byte(a.key), i, bytes.Index([]byte(a.text), []byte(a.key)))
	}
	return x
}

// addShort adds a text of three bytes, that is to say four: with each byte that may stand before a word.
func (x *index) addShort(i int, text string) {
	for b := range 256 {
		if !wordByte(byte(b)) {
			x.add(append([]byte{byte(b)}, text...), i, -1)
		}
	}
}

func (x *index) add(key []byte, i, back int) {
	for at := range 3 {
		x.hot[binary.LittleEndian.Uint16(key[at:])] = 1
	}
	k := binary.LittleEndian.Uint32(key)
	at := slotOf(k)
	for x.slots[at].anchor != 0 {
		at = (at + 1) % slotCount
	}
	x.slots[at] = slot{k, uint8(i + 1), int8(back)}
}

func slotOf(key uint32) uint32 { return key * 2654435761 >> 20 } // Fibonacci hashing: the upper 12 bits

// scan calls found for every anchor in content.
func (x *index) scan(content []byte, found func(a *anchor, at int)) {
	for i := range x.anchors { // there is no byte before the first
		if a := &x.anchors[i]; a.key == "" && bytes.HasPrefix(content, []byte(a.text)) {
			found(a, 0)
		}
	}
	i := 0
	// two loads of which three pairs each are looked up would be 18: one is as fast
	for ; i+17 <= len(content); i += 9 {
		w := binary.LittleEndian.Uint64(content[i:])
		if x.hot[uint16(w)]|x.hot[uint16(w>>24)]|x.hot[uint16(w>>48)] != 0 {
			x.around(content, i, found)
			x.around(content, i+3, found)
			x.around(content, i+6, found)
		}
	}
	for ; i+2 <= len(content); i += 3 {
		x.around(content, i, found)
	}
}

// around looks for the three keys that hold the pair at p.
func (x *index) around(content []byte, p int, found func(a *anchor, at int)) {
	if x.hot[binary.LittleEndian.Uint16(content[p:])] == 0 {
		return
	}
	for start := max(0, p-2); start <= p && start+4 <= len(content); start++ {
		key := binary.LittleEndian.Uint32(content[start:])
		for at := slotOf(key); x.slots[at].anchor != 0; at = (at + 1) % slotCount {
			s := &x.slots[at]
			if s.key != key {
				continue
			}
			a, begin := &x.anchors[s.anchor-1], start-int(s.back)
			if begin >= 0 && bytes.HasPrefix(content[begin:], []byte(a.text)) {
				found(a, begin)
			}
		}
	}
}
