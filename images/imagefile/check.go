package imagefile

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"

	"slipway/images/blob"
	"slipway/images/manifest"
	"slipway/images/sif"
	"slipway/internal/errs"
)

// File is the file of an image, or what reads a thin one as if it were whole.
type File interface {
	io.ReaderAt
	Stat() (os.FileInfo, error)
}

// Check reads a SIF once, compares its parts with the document's digests and copies all of it to also.
func Check(ctx context.Context, f File, d manifest.Document, also io.Writer) (*sif.Image, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	image, err := sif.Open(f, st.Size())
	if err != nil {
		return nil, Damaged("%v", err)
	}
	if image.Partition.Size != d.PartitionSize() || image.Manifest.Size != d.Manifest.Size {
		return nil, Damaged("its partition has %d bytes and its manifest %d, instead of %d and %d",
			image.Partition.Size, image.Manifest.Size, d.PartitionSize(), d.Manifest.Size)
	}
	kept, tail, about := sha256.New(), sha256.New(), sha256.New()
	start, end := image.Partition.Offset, image.Manifest.Offset
	for _, s := range []struct {
		from, to int64
		into     io.Writer
	}{
		{0, start + manifest.SuperblockSize, io.Discard},
		{start + manifest.SuperblockSize, start + d.CutAt(), kept},
		{start + d.CutAt(), start + d.PartitionSize(), tail},
		{start + d.PartitionSize(), end, io.Discard},
		{end, end + d.Manifest.Size, about},
		{end + d.Manifest.Size, st.Size(), io.Discard},
	} {
		if err := blob.Copy(ctx, io.MultiWriter(s.into, also), f, s.from, s.to); err != nil {
			return nil, err
		}
	}
	if err := blob.Copy(ctx, tail, f, start, start+manifest.SuperblockSize); err != nil {
		return nil, err
	}
	switch {
	case d.Base != nil && blob.Named(kept.Sum(nil)) != d.Base.Kept:
		return nil, Damaged("what it has of its base has the digest %s", blob.Named(kept.Sum(nil)))
	case blob.Named(tail.Sum(nil)) != d.Tail.Digest:
		return nil, Damaged("its own part has the digest %s", blob.Named(tail.Sum(nil)))
	case blob.Named(about.Sum(nil)) != d.Manifest.Digest:
		return nil, Damaged("its manifest has the digest %s", blob.Named(about.Sum(nil)))
	}
	return image, nil
}

// Signatures returns the digest of all that lies behind an image's manifest, and the file's size.
func Signatures(ctx context.Context, f *os.File, image *sif.Image) (digest string, size int64, err error) {
	st, err := f.Stat()
	if err != nil {
		return "", 0, err
	}
	sum := sha256.New()
	err = blob.Copy(ctx, sum, f, image.Manifest.Offset+image.Manifest.Size, st.Size())
	return blob.Named(sum.Sum(nil)), st.Size(), err
}

// Damaged is the error of an image that is not what its document says.
func Damaged(format string, args ...any) error {
	return errs.New(errs.Conflict, "the environment is damaged on disk: %s", fmt.Sprintf(format, args...)).
		With("freeze it again, pull it again, or restore the file from a copy")
}
