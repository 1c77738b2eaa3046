package sif

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	sylabs "github.com/sylabs/sif/v2/pkg/sif"

	"slipway/internal/errs"
)

// Where a SIF's header has what is checked here, and what every file of this package has there.
const (
	magicAt, magic = 32, "SIF_MAGIC\x0001\x00" // with the format's version
	// Number, offset and size of the descriptors, and the offset of the data.
	geometryAt           = 88
	descriptorsAt        = 4096
	descriptors          = 48
	descriptorSize       = 585
	dataAt               = descriptorsAt + descriptors*descriptorSize
	maxSignature   int64 = 256 << 10
)

// Span is a part of the file.
type Span struct{ Offset, Size int64 }

func (s Span) end() int64 { return s.Offset + s.Size }

// Image is what a SIF of an environment consists of.
type Image struct {
	Arch       string // as Go and OCI name it
	Partition  Span
	Manifest   Span
	Signatures []Span // in the order in which they were made, by whomever

	r     io.ReaderAt
	head  []byte
	file  *sylabs.FileImage
	parts []sylabs.Descriptor // partition and manifest
	marks []sylabs.Descriptor // signatures
}

// Open reads the head of a SIF of size bytes. The file may be a stranger's: what is not built exactly as Finish and
// Sign build it, to the last byte outside of its objects, is refused.
func Open(r io.ReaderAt, size int64) (*Image, error) {
	head, err := readHead(r)
	if err != nil {
		return nil, err
	}
	i, err := describe(head, size)
	if err != nil {
		return nil, err
	}
	i.r = r
	end := i.Manifest.end()
	for _, s := range i.Signatures {
		if s.Offset != end || s.Size <= 0 || s.Size > maxSignature || s.end() > size {
			return nil, refuse("its signature of %d bytes at %d is out of place", s.Size, s.Offset)
		}
		end = s.end()
	}
	if end != size {
		return nil, refuse("it has %d bytes, of which %d belong to no object", size, size-end)
	}
	return i, i.exact()
}

// Root reads the partition.
func (i *Image) Root() *io.SectionReader {
	return io.NewSectionReader(i.r, i.Partition.Offset, i.Partition.Size)
}

// ReadManifest returns the manifest's bytes.
func (i *Image) ReadManifest() ([]byte, error) { return i.read(i.Manifest) }

func (i *Image) read(s Span) ([]byte, error) {
	b := make([]byte, s.Size)
	if n, err := i.r.ReadAt(b, s.Offset); n < len(b) {
		return nil, fmt.Errorf("read %d bytes of the SIF at %d: %w", s.Size, s.Offset, err)
	}
	return b, nil
}

// exact compares the head with the one that this package would write for such objects.
func (i *Image) exact() error {
	head, err := Head(i.Arch, i.Partition.Size, i.Manifest.Size)
	if err != nil {
		return err
	}
	w := &window{}
	copy(w.head[:], head)
	for _, d := range i.marks {
		hash, fingerprint, err := d.SignatureMetadata()
		if err != nil {
			return refuse("its signature: %v", err)
		}
		if err := w.add(inPlace(d.Size()), hash, fingerprint); err != nil {
			return err
		}
	}
	if !bytes.Equal(w.head[:], i.head) {
		return refuse("its head is not the one of such a file")
	}
	return nil
}

func refuse(format string, args ...any) error {
	return errs.New(errs.Invalid, "the SIF is not one of an environment: "+format, args...).
		With("import it as an image, or fetch it again when it was one")
}

func readHead(r io.ReaderAt) ([]byte, error) {
	head := make([]byte, PartitionOffset)
	if n, err := r.ReadAt(head, 0); n < len(head) {
		if errors.Is(err, io.EOF) {
			return nil, refuse("it ends within the %d bytes of its head", len(head))
		}
		return nil, fmt.Errorf("read the SIF's head: %w", err)
	}
	return head, nil
}

// describe finds the objects. The head may be half signed.
func describe(head []byte, size int64) (*Image, error) {
	if string(head[magicAt:magicAt+len(magic)]) != magic {
		return nil, refuse("it does not begin like a SIF of version 01")
	}
	// sylabs/sif allocates what the header asks for, so it is given headers of this one geometry alone.
	for n, want := range []uint64{descriptors, descriptorsAt, descriptors * descriptorSize, dataAt} {
		if got := binary.LittleEndian.Uint64(head[geometryAt+8*n:]); got != want {
			return nil, refuse("its table of descriptors is another one")
		}
	}
	w := &window{}
	copy(w.head[:], head)
	file, err := sylabs.LoadContainer(w)
	if err != nil {
		return nil, refuse("%v", err)
	}
	i := &Image{head: head, file: file}
	file.WithDescriptors(func(d sylabs.Descriptor) bool {
		err = i.take(d, size)
		return err != nil
	})
	if err == nil && len(i.parts) != 2 {
		err = refuse("it has no partition, or no manifest")
	}
	return i, err
}

// take takes the next object.
func (i *Image) take(d sylabs.Descriptor, size int64) error {
	s := Span{d.Offset(), d.Size()}
	switch n := len(i.parts); {
	case d.DataType() == sylabs.DataSignature && n == 2:
		i.Signatures, i.marks = append(i.Signatures, s), append(i.marks, d)
		return nil
	case d.DataType() == sylabs.DataPartition:
		return i.takePartition(d, s, size)
	case d.DataType() != sylabs.DataGenericJSON || d.Name() != ManifestName || n != 1:
		return refuse("its object %d is %s %.40q", d.ID(), d.DataType(), clean(d.Name()))
	case s.Offset != i.Partition.end() || s.Size <= 0 || s.Size > maxManifest || s.end() > size:
		return refuse("its manifest of %d bytes at %d is out of place", s.Size, s.Offset)
	}
	i.Manifest, i.parts = s, append(i.parts, d)
	return nil
}

func (i *Image) takePartition(d sylabs.Descriptor, s Span, size int64) error {
	fs, kind, arch, err := d.PartitionMetadata()
	switch {
	case err != nil:
		return refuse("%v", err)
	case kind == sylabs.PartOverlay:
		return refuse(
			"it has an overlay partition, which Apptainer leaves out without a word where a site forbids overlays",
		)
	case len(i.parts) != 0:
		return refuse("it has more than one partition")
	case kind != sylabs.PartPrimSys || fs != sylabs.FsSquash:
		return refuse("its partition is a %s, %s", fs, kind)
	case s.Offset != PartitionOffset || s.Size <= 0 || s.Size > maxPartition || s.Size%Block != 0 || s.end() > size:
		return refuse("its partition of %d bytes at %d is out of place", s.Size, s.Offset)
	}
	i.Arch, i.Partition, i.parts = arch, s, append(i.parts, d)
	return nil
}
