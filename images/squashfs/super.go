package squashfs

import (
	"encoding/binary"
	"math/bits"

	"slipway/internal/errs"
)

// SuperblockSize is the length of the superblock, with which every image begins.
const SuperblockSize = 96

// PadTo is what an image's length is made a multiple of: the kernel refuses a loop device that ends in half a block.
const PadTo = 4096

const (
	magic        = 0x73717368
	none         = ^uint64(0) // the start of a table that is not there
	minBlockSize = 4 << 10
	maxBlockSize = 1 << 20
)

// The flags that a Writer sets or clears.
const (
	flagNoFragments = 0x0010
	flagDuplicates  = 0x0040
	flagExportable  = 0x0080
	flagNoXattrs    = 0x0200
)

// Superblock is the head of an image. Positions count from its own first byte.
type Superblock struct {
	Inodes, ModTime, BlockSize, Fragments                                                             uint32
	Compressor, Flags, IDs                                                                            uint16
	RootInode, BytesUsed, IDTable, XattrTable, InodeTable, DirectoryTable, FragmentTable, ExportTable uint64
}

// Bytes encodes the superblock.
func (s Superblock) Bytes() [SuperblockSize]byte {
	var b [SuperblockSize]byte
	le := binary.LittleEndian
	for i, v := range []uint32{magic, s.Inodes, s.ModTime, s.BlockSize, s.Fragments} {
		le.PutUint32(b[4*i:], v)
	}
	log := uint16(bits.Len32(s.BlockSize) - 1)
	for i, v := range []uint16{s.Compressor, log, s.Flags, s.IDs, 4, 0} {
		le.PutUint16(b[20+2*i:], v)
	}
	for i, v := range []uint64{
		s.RootInode, s.BytesUsed, s.IDTable, s.XattrTable, s.InodeTable, s.DirectoryTable, s.FragmentTable,
		s.ExportTable,
	} {
		le.PutUint64(b[32+8*i:], v)
	}
	return b
}

// ParseSuperblock reads the 96 bytes at the start of an image and checks what can be checked without the rest.
func ParseSuperblock(b []byte) (Superblock, error) {
	le := binary.LittleEndian
	if len(b) < SuperblockSize || le.Uint32(b) != magic {
		return Superblock{}, corrupt("the first bytes are not a squashfs superblock")
	}
	s := Superblock{
		Inodes: le.Uint32(b[4:]), ModTime: le.Uint32(b[8:]), BlockSize: le.Uint32(b[12:]), Fragments: le.Uint32(b[16:]),
		Compressor: le.Uint16(b[20:]), Flags: le.Uint16(b[24:]), IDs: le.Uint16(b[26:]),
		RootInode: le.Uint64(b[32:]), BytesUsed: le.Uint64(b[40:]), IDTable: le.Uint64(b[48:]),
		XattrTable: le.Uint64(b[56:]),
		InodeTable: le.Uint64(b[64:]), DirectoryTable: le.Uint64(b[72:]), FragmentTable: le.Uint64(b[80:]),
		ExportTable: le.Uint64(b[88:]),
	}
	if major, minor := le.Uint16(b[28:]), le.Uint16(b[30:]); major != 4 || minor != 0 {
		return Superblock{}, errs.New(errs.Conflict, "squashfs version %d.%d cannot be read, only 4.0", major, minor)
	}
	if s.BlockSize < minBlockSize || s.BlockSize > maxBlockSize || s.BlockSize&(s.BlockSize-1) != 0 ||
		int(le.Uint16(b[22:])) != bits.Len32(s.BlockSize)-1 {
		return Superblock{}, corrupt("block size %d", s.BlockSize)
	}
	return s, nil
}

// corrupt makes the error of an image that breaks the format.
func corrupt(format string, args ...any) error {
	return errs.New(errs.Invalid, "damaged squashfs: "+format, args...)
}

// invalid makes the error of a tree that the format cannot hold.
func invalid(format string, args ...any) error { return errs.New(errs.Invalid, format, args...) }
