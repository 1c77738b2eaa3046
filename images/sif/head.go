package sif

import (
	"crypto"
	"errors"
	"io"
	"strings"

	sylabs "github.com/sylabs/sif/v2/pkg/sif"

	"slipway/internal/errs"
)

const (
	// PartitionOffset is where the squashfs lies in every file: the first multiple of 4096 behind the header and the
	// descriptors, so that extents can be shared between files.
	PartitionOffset = 32768
	// Block is what the partition's size is a multiple of, and what every object but a signature begins at.
	Block = 4096
	// ManifestName names the manifest's object.
	ManifestName = "slipway.json"

	maxManifest  = 64 << 20
	maxPartition = 1 << 46
	launchScript = "#!/usr/bin/env run-singularity\n"
)

// Head returns the first PartitionOffset bytes of the file without signatures.
func Head(arch string, partition, manifest int64) ([]byte, error) {
	if partition <= 0 || partition > maxPartition || partition%Block != 0 {
		return nil, errs.New(errs.Invalid, "a partition of %d bytes cannot stand in a SIF", partition).
			With("pad it to a multiple of 4096")
	}
	if manifest <= 0 || manifest > maxManifest {
		return nil, errs.New(errs.Invalid, "a manifest of %d bytes cannot stand in a SIF", manifest).
			With("it may have 1 byte to 64 MiB")
	}
	root, err := sylabs.NewDescriptorInput(sylabs.DataPartition, inPlace(partition),
		sylabs.OptPartitionMetadata(sylabs.FsSquash, sylabs.PartPrimSys, arch), sylabs.OptObjectAlignment(Block))
	if err != nil {
		return nil, errs.New(errs.Invalid, "architecture: %.40q cannot be named in a SIF: %w", arch, err).
			With("use a name that Go and OCI use, such as amd64")
	}
	about, err := sylabs.NewDescriptorInput(sylabs.DataGenericJSON, inPlace(manifest),
		sylabs.OptObjectName(ManifestName), sylabs.OptObjectAlignment(Block))
	if err != nil {
		return nil, err
	}
	w := &window{}
	if _, err := sylabs.CreateContainer(w, sylabs.OptCreateDeterministic(), sylabs.OptCreateWithLaunchScript(launchScript),
		sylabs.OptCreateWithDescriptors(root, about)); err != nil {
		return nil, err
	}
	return w.head[:], nil
}

// add describes a signature in w: of hash and fingerprint, which PGP's have, with its bytes from r.
func (w *window) add(r io.Reader, hash crypto.Hash, fingerprint []byte) error {
	file, err := sylabs.LoadContainer(w)
	if err != nil {
		return err
	}
	d, err := sylabs.NewDescriptorInput(sylabs.DataSignature, r, sylabs.OptNoGroup(),
		sylabs.OptLinkedGroupID(sylabs.DefaultObjectGroup), sylabs.OptSignatureMetadata(hash, fingerprint))
	if err != nil {
		return err
	}
	return file.AddObject(d, sylabs.OptAddDeterministic())
}

// manifestOffset is where the manifest lies behind a partition of that size.
func manifestOffset(partition int64) int64 { return PartitionOffset + partition }

// inPlace is a data object of that many bytes, which are already where the SIF wants them.
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

// window is a file of which only the head is in memory. What is written behind the head is kept apart, so that the
// caller chooses when each part reaches the disk.
type window struct {
	head   [PartitionOffset]byte
	at     int64
	behind []byte // written behind the head, in one piece
	start  int64  // where that piece begins
}

// ReadAt reads the head alone.
func (w *window) ReadAt(p []byte, at int64) (int, error) {
	if at < 0 || at >= PartitionOffset {
		return 0, io.EOF
	}
	n := copy(p, w.head[at:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Write writes into the head, or takes a piece of what comes behind it.
func (w *window) Write(p []byte) (int, error) {
	switch {
	case w.at+int64(len(p)) <= PartitionOffset:
		copy(w.head[w.at:], p)
	case w.behind == nil:
		w.start, w.behind = w.at, append([]byte{}, p...)
	case w.at == w.start+int64(len(w.behind)):
		w.behind = append(w.behind, p...)
	default:
		return 0, errors.ErrUnsupported
	}
	w.at += int64(len(p))
	return len(p), nil
}

// Seek moves the place of the next Write.
func (w *window) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekStart:
		w.at = offset
	case io.SeekCurrent:
		w.at += offset
	default:
		return 0, errors.ErrUnsupported
	}
	return w.at, nil
}

// Truncate is never used: nothing is deleted from a SIF here.
func (w *window) Truncate(int64) error { return errors.ErrUnsupported }

// clean makes a text from a stranger's file fit for a message.
func clean(s string) string { return strings.ToValidUTF8(s, "?") }
