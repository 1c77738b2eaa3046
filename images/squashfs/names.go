package squashfs

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"

	"slipway/internal/errs"
)

// maxName is the longest name that the format holds.
const maxName = 256

// list reads the listing of a directory: runs of entries whose inodes lie in one metadata block.
func (w *walk) list(d pendingDir) error {
	if d.length == 0 {
		return nil
	}
	at, err := w.listings.position(d.block, d.offset)
	if err != nil {
		return err
	}
	if d.length > len(w.text)-at {
		return corrupt("a listing of %d bytes where %d are left", d.length, len(w.text)-at)
	}
	w.scratch = w.scratch[:0]
	for end := at + d.length; at < end; {
		if at, err = w.run(d, at, end); err != nil {
			return err
		}
	}
	if !slices.IsSortedFunc(w.scratch, byName) {
		slices.SortFunc(w.scratch, byName)
	}
	for i := 1; i < len(w.scratch); i++ {
		if w.scratch[i].Name == w.scratch[i-1].Name {
			return corrupt("the name %q stands twice in a directory", w.scratch[i].Name)
		}
	}
	d.node.Children = w.children.copy(w.scratch)
	return nil
}

func byName(a, b Entry) int { return cmp.Compare(a.Name, b.Name) }

// run reads one run of a listing and gives where the next begins.
func (w *walk) run(d pendingDir, at, end int) (int, error) {
	if end-at < 12 {
		return 0, corrupt("a listing ends within a head")
	}
	head := w.listings.data[at:]
	count, block := binary.LittleEndian.Uint32(head), binary.LittleEndian.Uint32(head[4:])
	if count >= 256 {
		return 0, corrupt("a run of %d entries", count)
	}
	at += 12
	for range count + 1 {
		if end-at < 8 {
			return 0, corrupt("a listing ends within an entry")
		}
		b := w.listings.data[at : at+8]
		at += 8
		length := int(binary.LittleEndian.Uint16(b[6:])) + 1
		if length > end-at {
			return 0, corrupt("a listing ends within a name")
		}
		if err := w.entry(d, w.text[at:at+length], block, binary.LittleEndian.Uint16(b), binary.LittleEndian.Uint16(b[4:])); err != nil {
			return 0, err
		}
		at += length
	}
	return at, nil
}

func (w *walk) entry(d pendingDir, name string, block uint32, offset, kind uint16) error {
	if err := CheckName(name); err != nil {
		return corrupt("%w", err)
	}
	// Listings that overlap could name a few inodes without end.
	if w.entries++; w.entries > len(w.text)/9 {
		return corrupt("more entries than the directory table can hold")
	}
	if w.entries > w.most {
		return errs.New(errs.Invalid, "the squashfs has more than %d names, which is as many as are read", w.most)
	}
	at, err := w.inodes.position(block, offset)
	if err != nil {
		return err
	}
	n, err := w.node(at, Kind(min(kind, 255)), d.depth+1)
	w.scratch = append(w.scratch, Entry{Name: name, Node: n})
	return err
}

// CheckName says why a name cannot stand in a directory.
func CheckName(name string) error {
	switch {
	case name == "" || name == "." || name == "..":
		return invalid("a file cannot have the name %q", name)
	case len(name) > maxName:
		return invalid("the name %q... has %d bytes, %d are the limit", name[:32], len(name), maxName)
	case strings.IndexByte(name, '/') >= 0 || strings.IndexByte(name, 0) >= 0:
		return invalid("the name %q holds a slash or a zero byte", name)
	}
	return nil
}
