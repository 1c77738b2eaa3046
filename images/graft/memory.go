package graft

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"slipway/images/squashfs"
	"slipway/images/tree"
)

// layoutFormat changes when equal trees no longer give equal tails, or when what is remembered is written otherwise.
const layoutFormat = 1

// Memory is what a graft leaves to the next one of the same upper directory: which files it has read, and where it has
// stored them. Its bytes are the library's own, which nobody else can write.
type Memory struct {
	Packs []string // that it speaks of
	about string
	data  []byte
}

var errNoMemory = errors.New("this is no memory of a graft")

// ParseMemory reads what [Memory.Encode] wrote.
func ParseMemory(b []byte) (*Memory, error) {
	r := &reader{b: b}
	m := &Memory{about: r.text()}
	for n := r.count(); n > 0 && !r.bad; n-- {
		m.Packs = append(m.Packs, r.text())
	}
	if m.data = r.b; r.bad {
		return nil, errNoMemory
	}
	return m, nil
}

// Encode returns the bytes to keep.
func (m *Memory) Encode() []byte {
	b := appendText(nil, m.about)
	b = binary.AppendUvarint(b, uint64(len(m.Packs)))
	for _, name := range m.Packs {
		b = appendText(b, name)
	}
	return append(b, m.data...)
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// about says what a memory holds for. After a start of the host it does not: a file may have lost what was written
// last, and kept its times.
func (g *grafter) about() (string, error) {
	st, err := tree.StatFile(g.root)
	if err != nil {
		return "", err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	s := g.cfg.Base.Super
	return fmt.Sprintf("%d %d:%d %s %d %d %d %s", layoutFormat, g.dev, st.Ino, strings.TrimSpace(string(boot)), s.BlockSize, s.Compressor,
		g.cfg.Level, g.cfg.About), nil
}

// remember makes the memory of the files of a graft, but for those at some paths.
func remember(about string, files []placed, except []string) *Memory {
	m := &Memory{about: about}
	packs, groups := map[*pack]uint64{}, map[*group]uint64{}
	place := func(b []byte, s stored, start uint64) []byte {
		i, known := packs[s.pack]
		if !known {
			i = uint64(len(packs))
			packs[s.pack], m.Packs = i, append(m.Packs, s.pack.name)
		}
		b = binary.AppendUvarint(b, i)
		b = binary.AppendUvarint(b, start-s.pack.origin)
		return binary.LittleEndian.AppendUint64(b, s.sum)
	}
	for i := range files {
		// one of several names may be another's next time
		if f := &files[i]; f.links == 1 && !slices.Contains(except, "/"+f.path) {
			m.data = appendNote(m.data, f, groups, place)
		}
	}
	return m
}

// appendNote writes a file's note, with the group that it is the first of.
func appendNote(b []byte, f *placed, groups map[*group]uint64, place func([]byte, stored, uint64) []byte) []byte {
	n := f.note
	for _, v := range [...]uint64{f.inode, hashOf(f.path), uint64(n.mtime), uint64(n.ctime)} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	b = binary.AppendUvarint(b, uint64(n.size))
	plain := byte(0)
	if n.plain && n.xattrs == nil {
		plain = 1
	}
	b = append(b, plain)
	if n.body != nil {
		b = place(b, n.body.stored, n.body.start())
		b = binary.AppendUvarint(b, n.body.data.Sparse)
		for _, word := range n.body.data.Blocks {
			b = binary.LittleEndian.AppendUint32(b, word)
		}
	}
	if n.group == nil {
		return b
	}
	i, known := groups[n.group]
	if !known {
		i = uint64(len(groups))
		groups[n.group] = i
	}
	b = binary.AppendUvarint(b, i)
	b = binary.AppendUvarint(b, uint64(n.offset))
	if !known {
		b = place(b, n.group.stored, n.group.at.Start)
		b = binary.LittleEndian.AppendUint32(b, n.group.at.Word)
		b = binary.AppendUvarint(b, uint64(n.group.used))
	}
	return b
}

// recall fills the notes with what an earlier graft has left, where that holds for this one.
func (g *grafter) recall() error {
	m := g.cfg.Known
	if m == nil || g.whole() {
		return nil
	}
	about, err := g.about()
	if err != nil || about != m.about {
		return err
	}
	for _, name := range m.Packs {
		r, size, err := g.cfg.OpenPack(name)
		if err != nil {
			g.packs = nil
			return nil // it went with the environments that it was of
		}
		g.packs = append(g.packs, &pack{name: name, r: r, size: size})
	}
	r := &reader{b: m.data, packs: g.packs, block: int64(g.cfg.Base.Super.BlockSize)}
	for len(r.b) > 0 && !r.bad {
		ino, n := r.note()
		g.notes.by[ino] = n
	}
	if r.bad {
		return fmt.Errorf("%w: %w", ErrMemory, errNoMemory)
	}
	return nil
}

// reader takes a memory apart. After something that cannot be, it is bad.
type reader struct {
	b      []byte
	bad    bool
	packs  []*pack
	groups []*group
	block  int64
}

func (r *reader) take(n int) []byte {
	if r.bad || n > len(r.b) {
		r.bad = true
		return make([]byte, n)
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) count() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) word() uint64 { return binary.LittleEndian.Uint64(r.take(8)) }

func (r *reader) text() string {
	n := r.count()
	if n > uint64(len(r.b)) {
		r.bad = true
		return ""
	}
	return string(r.take(int(n)))
}

func (r *reader) stored() (s stored, start uint64) {
	i := r.count()
	if i >= uint64(len(r.packs)) {
		r.bad = true
		return stored{}, 0
	}
	start = r.count()
	return stored{pack: r.packs[i], sum: r.word()}, start
}

func (r *reader) note() (ino uint64, n *note) {
	ino = r.word()
	n = &note{earlier: r.word(), mtime: int64(r.word()), ctime: int64(r.word()), size: int64(r.count())}
	n.plain = r.take(1)[0] == 1
	if blocks := n.size / r.block; blocks > 0 {
		n.body = r.body(blocks, n.size)
	}
	if n.size < 0 || n.size%r.block == 0 || r.bad {
		return ino, n
	}
	i := r.count()
	n.offset = uint32(r.count())
	if i == uint64(len(r.groups)) {
		r.groups = append(r.groups, r.group())
	}
	if i >= uint64(len(r.groups)) {
		r.bad = true
		return ino, n
	}
	n.group = r.groups[i]
	return ino, n
}

func (r *reader) body(blocks, size int64) *body {
	b := &body{data: &squashfs.Data{Fragment: squashfs.NoFragment, Size: uint64(blocks * r.block)}}
	b.stored, b.data.Start = r.stored()
	b.data.Sparse = r.count()
	if blocks > int64(len(r.b))/4 {
		r.bad = true
		return b
	}
	b.data.Blocks = make([]uint32, blocks)
	for i := range b.data.Blocks {
		b.data.Blocks[i] = binary.LittleEndian.Uint32(r.take(4))
	}
	return b
}

func (r *reader) group() *group {
	g := &group{at: &squashfs.Fragment{}}
	g.stored, g.at.Start = r.stored()
	g.at.Word = binary.LittleEndian.Uint32(r.take(4))
	g.used = int(r.count())
	return g
}
