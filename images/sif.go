package images

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/sylabs/sif/v2/pkg/sif"

	"slipway/internal/errs"
)

// partitionOffset is where the squashfs lies in every SIF made here: behind the header and the default number of
// descriptors, at a multiple of 4096 so that extents can be shared between images.
const partitionOffset = 32768

const manifestName = "slipway.json"

// inPlace is a data object whose bytes are already where the SIF wants them.
type inPlace int64

// Read is never used: io.Copy prefers WriteTo.
func (inPlace) Read([]byte) (int, error) { return 0, errors.ErrUnsupported }

// WriteTo goes over the bytes instead of writing them.
func (n inPlace) WriteTo(w io.Writer) (int64, error) {
	s, ok := w.(io.Seeker)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	_, err := s.Seek(int64(n), io.SeekCurrent)
	return int64(n), err
}

// finishSIF turns a file that holds a squashfs from partitionOffset to its end into a SIF, flushes it to the disk and gives its
// digest and size. The digest needs the header first and the header needs the sizes, so the squashfs is not copied behind a
// header: it is packed in its place, and the file is read once.
func finishSIF(ctx context.Context, path, arch string, m *Manifest, meter *meter) (digest string, size int64, err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return "", 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := writeSIF(f, arch, m); err != nil {
		return "", 0, fmt.Errorf("write SIF: %w", err)
	}
	st, err := f.Stat()
	if err != nil {
		return "", 0, err
	}
	meter.begin(Writing, st.Size())
	if digest, err = hashFile(ctx, f, func(n int64) { meter.add(0, n) }); err != nil {
		return "", 0, fmt.Errorf("digest: %w", err)
	}
	if err := f.Chmod(0o644); err != nil {
		return "", 0, err
	}
	if err := f.Sync(); err != nil {
		return "", 0, fmt.Errorf("flush: %w", err)
	}
	return digest, st.Size(), nil
}

func writeSIF(f *os.File, arch string, m *Manifest) error {
	st, err := f.Stat()
	if err != nil {
		return err
	}
	partition, err := sif.NewDescriptorInput(sif.DataPartition, inPlace(st.Size()-partitionOffset),
		sif.OptPartitionMetadata(sif.FsSquash, sif.PartPrimSys, arch), sif.OptObjectAlignment(4096))
	if err != nil {
		return errs.New(errs.Invalid, "architecture: %q cannot be named in a SIF: %w", arch, err).With("use a name that Go and OCI use, such as amd64")
	}
	about, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode manifest: %w", err)
	}
	manifest, err := sif.NewDescriptorInput(sif.DataGenericJSON, bytes.NewReader(about), sif.OptObjectName(manifestName), sif.OptObjectAlignment(4096))
	if err != nil {
		return err
	}
	image, err := sif.CreateContainer(f, sif.OptCreateDeterministic(), sif.OptCreateWithCloseOnUnload(false),
		sif.OptCreateWithLaunchScript("#!/usr/bin/env run-singularity\n"), sif.OptCreateWithDescriptors(partition, manifest))
	if err != nil {
		return err
	}
	root, err := image.GetDescriptor(sif.WithDataType(sif.DataPartition))
	if err == nil && root.Offset() != partitionOffset {
		err = errs.New(errs.Internal, "the partition is described at %d instead of %d", root.Offset(), partitionOffset)
	}
	return errors.Join(err, image.UnloadContainer())
}

// hashFile gives the digest of all of f, from its beginning.
func hashFile(ctx context.Context, f *os.File, moved func(int64)) (string, error) {
	h, buf := sha256.New(), make([]byte, 1<<20)
	for at := int64(0); ; {
		if err := ctx.Err(); err != nil {
			return "", context.Cause(ctx)
		}
		n, err := f.ReadAt(buf, at)
		h.Write(buf[:n])
		moved(int64(n))
		at += int64(n)
		if errors.Is(err, io.EOF) {
			return digestPrefix + hex.EncodeToString(h.Sum(nil)), nil
		}
		if err != nil {
			return "", err
		}
	}
}
