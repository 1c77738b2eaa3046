package squashfs

import (
	"encoding/binary"
	"slices"
	"strings"
)

const (
	xattrHeaderSize = 16
	outOfLine       = 0x100 // in the type of a pair: the value is a reference to where it really lies
)

// prefixes are the name spaces that the format has, by the numbers that it gives them.
func prefixes() []string { return []string{"user.", "trusted.", "security."} }

// xattrReader reads sets of pairs. left bounds what all sets together may take: sets that overlap could unfold a few
// bytes without end.
type xattrReader struct {
	pairs *table
	left  int
	most  int // pairs
	names map[string]string
}

// parseXattrs reads all sets, by their index.
func parseXattrs(s *source, at uint64, most int) ([]*Xattrs, error) {
	if at == none {
		return nil, nil
	}
	head, err := s.read("xattr table", at, at+xattrHeaderSize)
	if err != nil {
		return nil, err
	}
	start, count := binary.LittleEndian.Uint64(head), binary.LittleEndian.Uint32(head[8:])
	if count == 0 {
		return nil, nil
	}
	entries, end, err := s.listed("xattr table", at+xattrHeaderSize, 16*int64(count))
	if err != nil {
		return nil, err
	}
	r := &xattrReader{names: map[string]string{}, most: most}
	if r.pairs, err = s.table("xattr pairs", start, end); err != nil {
		return nil, err
	}
	r.left = len(r.pairs.data)
	sets := make([]*Xattrs, count)
	for i := range sets {
		e := entries[16*i:]
		if sets[i], err = r.set(binary.LittleEndian.Uint64(e), binary.LittleEndian.Uint32(e[8:])); err != nil {
			return nil, err
		}
	}
	return sets, nil
}

func (r *xattrReader) set(ref uint64, count uint32) (*Xattrs, error) {
	if count == 0 {
		return nil, nil
	}
	at, err := r.pairs.reference(ref)
	if err != nil {
		return nil, err
	}
	c := cursor{b: r.pairs.data[at:]}
	x := &Xattrs{}
	for range count {
		before := len(c.b)
		one, err := r.pair(&c)
		if err != nil {
			return nil, err
		}
		if r.left -= before - len(c.b); r.left < 0 {
			return nil, corrupt("xattr sets overlap")
		}
		if r.most--; r.most < 0 {
			return nil, corrupt("more xattrs than are read")
		}
		x.List = append(x.List, one)
	}
	slices.SortFunc(x.List, func(a, b Xattr) int { return strings.Compare(a.Name, b.Name) })
	return x, nil
}

func (r *xattrReader) pair(c *cursor) (Xattr, error) {
	typ, length := c.u16(), c.u16()
	name := c.take(uint64(length))
	value := c.take(uint64(c.u32()))
	if typ&outOfLine != 0 && len(value) == 8 {
		at, err := r.pairs.reference(binary.LittleEndian.Uint64(value))
		if err != nil {
			return Xattr{}, err
		}
		outOfLine := cursor{b: r.pairs.data[at:]}
		value = outOfLine.take(uint64(outOfLine.u32()))
		c.short = c.short || outOfLine.short
	}
	kind := int(typ &^ outOfLine)
	if c.short || kind >= len(prefixes()) || slices.Contains(name, 0) {
		return Xattr{}, corrupt("an xattr of type %x with a name of %d bytes", typ, length)
	}
	return Xattr{Name: r.intern(prefixes()[kind] + string(name)), Value: slices.Clip(value)}, nil
}

func (r *xattrReader) intern(name string) string {
	if known, found := r.names[name]; found {
		return known
	}
	r.names[name] = name
	return name
}
