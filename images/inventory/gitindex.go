package inventory

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
)

// The modes of an index that are no plain files.
const (
	modeSymlink = 0o120000
	modeGitlink = 0o160000
)

// indexEntry is a tracked file as git saw it last.
type indexEntry struct {
	path  string
	id    string
	mode  uint32
	mtime uint32
	size  uint32 // its low 32 bits
	skip  bool   // git itself does not look at the file
	added bool   // only meant to be added, or one side of a conflict
}

// gitIndex is what is wanted of .git/index.
type gitIndex struct {
	entries []indexEntry
	tree    string // the tree that it is equal to, "" when it does not know
}

var errIndexShort = errors.New("it is cut short")

const (
	idLength    = 20
	fixedLength = 62 // ten words, a name, flags
)

// parseGitIndex reads an index of version 2, 3 or 4.
func parseGitIndex(b []byte) (gitIndex, error) {
	if len(b) < 12+idLength || string(b[:4]) != "DIRC" {
		return gitIndex{}, errors.New("it is none")
	}
	version, count := binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
	if version < 2 || version > 4 {
		return gitIndex{}, fmt.Errorf("version %d is not known", version)
	}
	rest := b[12 : len(b)-idLength]
	if uint64(count)*fixedLength > uint64(len(rest)) {
		return gitIndex{}, errIndexShort
	}
	x := gitIndex{entries: make([]indexEntry, 0, count)}
	last := ""
	for range count {
		e, n, err := parseIndexEntry(rest, version, last)
		if err != nil {
			return gitIndex{}, err
		}
		rest, last = rest[n:], e.path
		x.entries = append(x.entries, e)
	}
	return x, x.extensions(rest)
}

// parseIndexEntry reads one entry and says how long it was; last is the path before it, which version 4 shortens by.
func parseIndexEntry(b []byte, version uint32, last string) (indexEntry, int, error) {
	if len(b) < fixedLength {
		return indexEntry{}, 0, errIndexShort
	}
	word := func(i int) uint32 { return binary.BigEndian.Uint32(b[i*4:]) }
	e := indexEntry{mtime: word(2), mode: word(6), size: word(9), id: hex.EncodeToString(b[40:60])}
	flags, at := binary.BigEndian.Uint16(b[60:]), fixedLength
	e.skip, e.added = flags&0x8000 != 0, flags&0x3000 != 0
	if flags&0x4000 != 0 {
		if version < 3 || len(b) < at+2 {
			return indexEntry{}, 0, errIndexShort
		}
		more := binary.BigEndian.Uint16(b[at:])
		e.skip, e.added = e.skip || more&0x4000 != 0, e.added || more&0x2000 != 0
		at += 2
	}
	keep := ""
	if version == 4 {
		drop, n := offsetVarint(b[at:])
		if n == 0 || drop > uint64(len(last)) {
			return indexEntry{}, 0, errIndexShort
		}
		keep, at = last[:len(last)-int(drop)], at+n
	}
	end := bytes.IndexByte(b[at:], 0)
	if end < 0 || len(keep)+end > 4096 {
		return indexEntry{}, 0, errIndexShort
	}
	e.path, at = keep+string(b[at:at+end]), at+end+1
	if version < 4 {
		at = (at + 7) &^ 7
	}
	if at > len(b) {
		return indexEntry{}, 0, errIndexShort
	}
	return e, at, nil
}

// offsetVarint reads a number as git writes offsets, and its length: 0 when there is none.
func offsetVarint(b []byte) (uint64, int) {
	var v uint64
	for i, c := range b[:min(len(b), 9)] {
		if i > 0 {
			v++
		}
		v = v<<7 | uint64(c&0x7f)
		if c&0x80 == 0 {
			return v, i + 1
		}
	}
	return 0, 0
}

// extensions takes the tree's name out of what follows the entries. One that git says must be understood is refused.
func (x *gitIndex) extensions(b []byte) error {
	for len(b) >= 8 {
		name, n := string(b[:4]), uint64(binary.BigEndian.Uint32(b[4:]))
		if n > uint64(len(b)-8) {
			return errIndexShort
		}
		body := b[8 : 8+n]
		b = b[8+n:]
		switch {
		case name == "TREE":
			x.tree = cachedTree(body)
		case name[0] < 'A' || name[0] > 'Z':
			return fmt.Errorf("its part %q is not known", name)
		}
	}
	return nil
}

// cachedTree returns the root's name out of a TREE extension: a path, which is empty, the number of entries, which is
// -1 when it is out of date, the number of subtrees, and the name.
func cachedTree(b []byte) string {
	if len(b) == 0 || b[0] != 0 {
		return ""
	}
	counts, id, ok := bytes.Cut(b[1:], []byte("\n"))
	entries, _, _ := bytes.Cut(counts, []byte(" "))
	if n, err := strconv.Atoi(string(entries)); !ok || err != nil || n < 0 || len(id) < idLength {
		return ""
	}
	return hex.EncodeToString(id[:idLength])
}
