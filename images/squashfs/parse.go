package squashfs

import (
	"encoding/binary"
	"io"

	"slipway/internal/errs"
)

const (
	// baseBudget is what the tables of the smallest image may unpack to. Beyond it they may take a few times the
	// image's size: a file of zeros needs four bytes of table for each block and next to nothing stored.
	baseBudget = 64 << 20
	maxBudget  = 2 << 30
	// maxDepth bounds directories in directories: more cannot be reached by any path that Linux takes.
	maxDepth = 4096
	// maxEntries and maxXattrs bound what is made of the tables: a name or an attribute takes some bytes there, and a
	// hundred in memory. An image of zeros, packed well, would else be the end of the process that reads it.
	maxEntries = 16 << 20
	maxXattrs  = 8 << 20
	// minInode is the length of the shortest inode, of a fifo.
	minInode = 20
)

// Parse reads the tables of the image in r, which is size bytes long or longer than the image.
func Parse(r io.ReaderAt, size int64) (*Image, error) {
	return parseUpTo(r, size, maxEntries, maxXattrs)
}

func parseUpTo(r io.ReaderAt, size int64, entries, xattrs int) (*Image, error) {
	super, err := readSuperblock(r, size)
	if err != nil {
		return nil, err
	}
	unpack, err := newUnpacker(super.Compressor)
	if err != nil {
		return nil, err
	}
	img := &Image{Super: super, file: r, unpack: unpack, cache: newCache(cacheBytes)}
	s := &source{
		file: r, end: super.BytesUsed, unpack: unpack, budget: min(baseBudget+8*min(size, maxBudget), maxBudget),
	}
	if err := img.parse(s, entries, xattrs); err != nil {
		return nil, err
	}
	return img, nil
}

func readSuperblock(r io.ReaderAt, size int64) (Superblock, error) {
	head := make([]byte, SuperblockSize)
	if n, err := r.ReadAt(head, 0); n < len(head) {
		return Superblock{}, readError("the superblock", 0, err)
	}
	super, err := ParseSuperblock(head)
	if err != nil {
		return super, err
	}
	if size < 0 || super.BytesUsed > uint64(size) {
		return super, errs.New(errs.Invalid, "damaged squashfs: it is cut off at %d of %d bytes", size, super.BytesUsed)
	}
	if super.InodeTable < SuperblockSize || super.InodeTable >= super.DirectoryTable ||
		super.DirectoryTable > super.BytesUsed {
		return super, corrupt("inode table at %d, directory table at %d", super.InodeTable, super.DirectoryTable)
	}
	return super, nil
}

func (i *Image) parse(s *source, entries, xattrs int) error {
	w := &walk{super: i.Super, most: entries}
	end, err := i.parseLists(s, w)
	if err != nil {
		return err
	}
	if w.xattrs, err = parseXattrs(s, i.Super.XattrTable, xattrs); err != nil {
		return err
	}
	if w.inodes, err = s.table("inode table", i.Super.InodeTable, i.Super.DirectoryTable); err != nil {
		return err
	}
	if most := len(w.inodes.data) / minInode; uint64(i.Super.Inodes) > uint64(most) {
		return corrupt("%d inodes in a table that has room for %d", i.Super.Inodes, most)
	}
	if w.listings, err = s.table("directory table", i.Super.DirectoryTable, end); err != nil {
		return err
	}
	i.Root, err = w.tree()
	i.memory = w.memory() + int64(len(i.fragments))
	return err
}

// parseLists reads the id and fragment tables, and finds where the directory table ends: at the first block of the
// first table behind it.
func (i *Image) parseLists(s *source, w *walk) (end uint64, err error) {
	ids, end, err := s.listed("id table", i.Super.IDTable, 4*int64(i.Super.IDs))
	if err != nil {
		return 0, err
	}
	for ; len(ids) > 0; ids = ids[4:] {
		w.ids = append(w.ids, binary.LittleEndian.Uint32(ids))
	}
	if i.Super.Fragments > 0 {
		var first uint64
		if i.fragments, first, err = s.listed("fragment table", i.Super.FragmentTable, 16*int64(i.Super.Fragments)); err != nil {
			return 0, err
		}
		end = min(end, first)
	}
	if i.Super.ExportTable != none {
		list, err := s.read("export table", i.Super.ExportTable, i.Super.ExportTable+8)
		if err != nil {
			return 0, err
		}
		end = min(end, binary.LittleEndian.Uint64(list))
	}
	return end, i.checkFragments()
}

func (i *Image) checkFragments() error {
	for n := range i.Super.Fragments {
		start, word := i.fragment(n)
		if err := checkBlock(word, i.Super.BlockSize); err != nil || word&lengthMask == 0 {
			return corrupt("fragment %d has the length %x", n, word)
		}
		if start < SuperblockSize || start > i.Super.InodeTable || uint64(word&lengthMask) > i.Super.InodeTable-start {
			return corrupt("fragment %d is at %d, behind the data", n, start)
		}
	}
	return nil
}

// fragment returns the place and the block word of a fragment block.
func (i *Image) fragment(n uint32) (start uint64, word uint32) {
	e := i.fragments[16*int(n):]
	return binary.LittleEndian.Uint64(e), binary.LittleEndian.Uint32(e[8:])
}

// lengthMask and storedRaw are the parts of a block word.
const (
	lengthMask = 1<<24 - 1
	storedRaw  = 1 << 24
)

func checkBlock(word, blockSize uint32) error {
	if word&lengthMask > blockSize || word&^(lengthMask|storedRaw) != 0 {
		return corrupt("a block has the length %x", word)
	}
	return nil
}
