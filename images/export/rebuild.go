package export

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"

	"slipway/images/squashfs"
	"slipway/internal/ctxio"
	"slipway/internal/errs"
)

// RebuildConfig says which two parts to put together. Digests are of sha256, in hex.
type RebuildConfig struct {
	Base       *os.File
	BaseDigest string      // of the whole base, which the tail was made for
	Tail       io.ReaderAt // the tail's bytes, then the new superblock
	TailSize   int64       // of both
	TailDigest string
	Out        *os.File
	Offset     int64 // of the partition in Out
	// Copy makes the first length bytes of base those of dst from off on; it may share them.
	Copy func(ctx context.Context, dst *os.File, off int64, base *os.File, length int64, progress func(int64)) (shared int64, err error)
}

// Rebuild writes the squashfs that an environment had where it was frozen, and gives its length. A base or tail with
// another digest is refused before anything is written, as positions in a tail hold for one base alone. After an error
// Out holds a part, which the caller removes.
func Rebuild(ctx context.Context, cfg RebuildConfig) (int64, error) {
	super, cut, err := fitting(cfg)
	if err != nil {
		return 0, fmt.Errorf("rebuild an environment: %w", err)
	}
	if err := cfg.check(ctx); err != nil {
		return 0, fmt.Errorf("rebuild an environment: %w", err)
	}
	if _, err := cfg.Copy(ctx, cfg.Out, cfg.Offset, cfg.Base, cut, nil); err != nil {
		return 0, fmt.Errorf("rebuild an environment: %w", err)
	}
	size := cfg.TailSize - squashfs.SuperblockSize
	tail := ctxio.Until(ctx, io.NewSectionReader(cfg.Tail, 0, size))
	if _, err := io.Copy(io.NewOffsetWriter(cfg.Out, cfg.Offset+cut), tail); err != nil {
		return 0, written("the tail", err)
	}
	head := super.Bytes()
	if _, err := cfg.Out.WriteAt(head[:], cfg.Offset); err != nil {
		return 0, written("the superblock", err)
	}
	return cut + size, nil
}

// fitting reads both superblocks and says whether one can have come of the other.
func fitting(cfg RebuildConfig) (super squashfs.Superblock, cut int64, err error) {
	base, err := superblock(cfg.Base, 0)
	if err != nil {
		return super, 0, fmt.Errorf("base: %w", err)
	}
	if super, err = superblock(cfg.Tail, cfg.TailSize-squashfs.SuperblockSize); err != nil {
		return super, 0, fmt.Errorf("tail: %w", err)
	}
	cut = int64(base.InodeTable)
	end := cut + cfg.TailSize - squashfs.SuperblockSize
	switch {
	case super.BlockSize != base.BlockSize || super.Compressor != base.Compressor || super.ModTime != base.ModTime ||
		super.Fragments < base.Fragments:
		err = unfitting("the two are not of one kind")
	case super.InodeTable < base.InodeTable || super.BytesUsed <= base.InodeTable || super.BytesUsed > uint64(end) ||
		end%squashfs.PadTo != 0:
		err = unfitting("the tail does not begin where the base is cut, at byte %d", cut)
	}
	return super, cut, err
}

func superblock(r io.ReaderAt, at int64) (squashfs.Superblock, error) {
	var head [squashfs.SuperblockSize]byte
	if at < 0 {
		return squashfs.Superblock{}, unfitting("%d bytes cannot hold a superblock", at+squashfs.SuperblockSize)
	}
	if _, err := r.ReadAt(head[:], at); err != nil && err != io.EOF {
		return squashfs.Superblock{}, fmt.Errorf("read superblock: %w", err)
	}
	return squashfs.ParseSuperblock(head[:])
}

// check compares both digests: with other bytes, positions would lead anywhere.
func (cfg RebuildConfig) check(ctx context.Context) error {
	st, err := cfg.Base.Stat()
	if err != nil {
		return fmt.Errorf("base: %w", err)
	}
	for _, part := range []struct {
		name, want string
		r          io.ReaderAt
		size       int64
	}{{"tail", cfg.TailDigest, cfg.Tail, cfg.TailSize}, {"base", cfg.BaseDigest, cfg.Base, st.Size()}} {
		h := sha256.New()
		if _, err := io.Copy(h, ctxio.Until(ctx, io.NewSectionReader(part.r, 0, part.size))); err != nil {
			return fmt.Errorf("read the %s: %w", part.name, err)
		}
		if got := hex.EncodeToString(h.Sum(nil)); got != part.want {
			return unfitting("the %s is sha256:%s, not sha256:%s", part.name, got, part.want)
		}
	}
	return nil
}

func unfitting(format string, args ...any) error {
	return errs.New(errs.Conflict, format, args...).With("fetch base and tail of one environment again")
}
