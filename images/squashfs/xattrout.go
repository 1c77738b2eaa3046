package squashfs

import (
	"encoding/binary"
	"strings"
)

// The longest names and values of xattrs that Linux has.
const (
	maxXattrName  = 255
	maxXattrValue = 64 << 10
)

// xattrTable collects sets in the order of their first use. Equal ones are stored once.
type xattrTable struct {
	pairs   *metaWriter
	entries []byte
	byPlace map[*Xattrs]uint32
	byBytes map[string]uint32
}

// index returns the number of a set.
func (t *xattrTable) index(x *Xattrs) (uint32, error) {
	if x == nil || len(x.List) == 0 {
		return noXattr, nil
	}
	if i, known := t.byPlace[x]; known {
		return i, nil
	}
	b, err := encodeXattrs(x)
	if err != nil {
		return 0, err
	}
	i, known := t.byBytes[string(b)]
	if !known {
		i = uint32(len(t.entries) / 16)
		t.entries = binary.LittleEndian.AppendUint64(t.entries, t.pairs.place().reference())
		t.entries = binary.LittleEndian.AppendUint32(t.entries, uint32(len(x.List)))
		t.entries = binary.LittleEndian.AppendUint32(t.entries, uint32(len(b)))
		t.byBytes[string(b)] = i
		t.pairs.write(b)
	}
	t.byPlace[x] = i
	return i, nil
}

func encodeXattrs(x *Xattrs) ([]byte, error) {
	var b []byte
	for _, one := range x.List {
		kind, name := splitXattr(one.Name)
		if kind < 0 || name == "" {
			return nil, invalid("squashfs holds xattrs named user., trusted. and security., not %q", one.Name)
		}
		if len(one.Name) > maxXattrName || len(one.Value) > maxXattrValue {
			return nil, invalid("the xattr %.40q has a name of %d and a value of %d bytes, %d and %d are the limits",
				one.Name, len(one.Name), len(one.Value), maxXattrName, maxXattrValue)
		}
		b = binary.LittleEndian.AppendUint16(b, uint16(kind))
		b = binary.LittleEndian.AppendUint16(b, uint16(len(name)))
		b = append(b, name...)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(one.Value)))
		b = append(b, one.Value...)
	}
	return b, nil
}

// splitXattr returns the number of a name's prefix, -1 when there is none, and the rest.
func splitXattr(name string) (int, string) {
	for i, prefix := range prefixes() {
		if rest, found := strings.CutPrefix(name, prefix); found {
			return i, rest
		}
	}
	return -1, name
}

// lay writes the pairs, the sets and the head that both are found by, whose position it gives.
func (t *xattrTable) lay(tables *tables, out *countingWriter) uint64 {
	start := out.pos()
	t.pairs.flush()
	out.put(t.pairs.out)
	m := newMetaWriter(tables.packers)
	var head []byte
	head = binary.LittleEndian.AppendUint64(head, start)
	head = binary.LittleEndian.AppendUint64(head, uint64(len(t.entries)/16))
	for i, at := range m.bulk(t.entries) {
		if i*metaSize < len(t.entries) {
			head = binary.LittleEndian.AppendUint64(head, out.pos()+at)
		}
	}
	m.flush()
	out.put(m.out)
	at := out.pos()
	out.put(head)
	return at
}
