package squashfs

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
)

// metaWriter packs what it is given into metadata blocks, in memory: the largest tables come to a few megabytes.
type metaWriter struct {
	packers []packer // the first for what is written bit by bit
	out     []byte
	current []byte
	scratch []byte
}

func newMetaWriter(packers []packer) *metaWriter {
	return &metaWriter{packers: packers, current: make([]byte, 0, metaSize), scratch: make([]byte, 0, metaSize+1024)}
}

// place is where the next byte will be: its block, from the table's start, and the place in that.
func (m *metaWriter) place() place {
	return place{block: uint64(len(m.out)), offset: uint16(len(m.current))}
}

// place is a position in a table of metadata.
type place struct {
	block  uint64
	offset uint16
}

func (p place) reference() uint64 { return p.block<<16 | uint64(p.offset) }

func (m *metaWriter) write(b []byte) {
	for len(b) > 0 {
		n := min(len(b), metaSize-len(m.current))
		m.current = append(m.current, b[:n]...)
		b = b[n:]
		if len(m.current) == metaSize {
			m.flush()
		}
	}
}

// flush ends the block. Only the table's last one may be short.
func (m *metaWriter) flush() {
	if len(m.current) > 0 {
		m.out = appendMeta(m.out, m.packers[0](m.scratch, m.current), m.current)
		m.current = m.current[:0]
	}
}

func appendMeta(out, packed, plain []byte) []byte {
	if packed == nil {
		out = binary.LittleEndian.AppendUint16(out, uint16(len(plain))|metaRaw)
		return append(out, plain...)
	}
	out = binary.LittleEndian.AppendUint16(out, uint16(len(packed)))
	return append(out, packed...)
}

// bulk writes at once what begins an empty table, its blocks compressed on all cores, and tells where each began.
func (m *metaWriter) bulk(b []byte) []uint64 {
	full := len(b) / metaSize
	stored := make([][]byte, full)
	var next atomic.Int64
	var wg sync.WaitGroup
	for _, pack := range m.packers {
		wg.Go(func() {
			scratch := make([]byte, 0, metaSize+1024)
			for i := int(next.Add(1)) - 1; i < full; i = int(next.Add(1)) - 1 {
				plain := b[i*metaSize : (i+1)*metaSize]
				stored[i] = appendMeta(nil, pack(scratch, plain), plain)
			}
		})
	}
	wg.Wait()
	starts := make([]uint64, 0, full+1)
	for _, s := range stored {
		starts = append(starts, uint64(len(m.out)))
		m.out = append(m.out, s...)
	}
	starts = append(starts, uint64(len(m.out)))
	m.current = append(m.current, b[full*metaSize:]...)
	return starts
}
