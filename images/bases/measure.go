package bases

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"

	"slipway/images/blob"
	"slipway/images/manifest"
	"slipway/images/squashfs"
)

// Measure flushes the file of a base, and reads it for its digests.
func Measure(ctx context.Context, path string) (manifest.BasePart, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return manifest.BasePart{}, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return manifest.BasePart{}, err
	}
	image, err := squashfs.Parse(f, st.Size())
	if err != nil {
		return manifest.BasePart{}, err
	}
	b := manifest.BasePart{Cut: image.Cut()}
	b.Part, b.Kept, err = Hash(ctx, f, st.Size(), image.Cut())
	return b, errors.Join(err, f.Chmod(0o644), f.Sync())
}

// Hash reads a base once for its digest and that of the part which environments keep.
func Hash(ctx context.Context, f io.ReaderAt, size, cut int64) (all manifest.Part, kept string, err error) {
	whole, part := sha256.New(), sha256.New()
	for _, s := range []struct {
		from, to int64
		into     io.Writer
	}{
		{0, manifest.SuperblockSize, whole}, {manifest.SuperblockSize, cut, io.MultiWriter(whole, part)},
		{cut, size, whole},
	} {
		if err := blob.Copy(ctx, s.into, f, s.from, s.to); err != nil {
			return manifest.Part{}, "", err
		}
	}
	return manifest.Part{Digest: blob.Named(whole.Sum(nil)), Size: size}, blob.Named(part.Sum(nil)), nil
}
