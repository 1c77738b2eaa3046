package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	digest "github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	spec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway/images/blob"
	"slipway/images/oci"
	"slipway/internal/errs"
)

// The media types of an environment's parts. The document's own is oci.TypeEnvironment.
const (
	TypeManifest = "application/vnd.slipway.manifest.v1+json"
	TypeBase     = "application/vnd.slipway.base.v1.squashfs"
	TypeTail     = "application/vnd.slipway.tail.v1"
)

// Annotations of a base layer: how much of it every environment over it keeps, and the digest of that part, so that an
// image can be checked without the base's file.
const (
	noteCut  = "vnd.slipway.base.cut"  // decimal offset: bytes [96, cut) are kept
	noteKept = "vnd.slipway.base.kept" // digest of these bytes
)

// MaxDocument is more than any document needs; what is longer comes from somebody who means ill.
const MaxDocument = 64 << 10

// Document names the parts of an environment by their digests. Its own digest is the environment's: it is an OCI image
// manifest, so a registry that holds the parts knows the environment by the same digest.
type Document struct {
	Manifest Part
	Base     *BasePart // nil: all of the image is in the tail
	Tail     Part      // what is behind the base's cut, then the 96 bytes of the superblock
}

// Part is a blob.
type Part struct {
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
}

// BasePart is a base's squashfs, of which an environment keeps bytes [96, Cut).
type BasePart struct {
	Part
	Cut  int64  `json:"cut"`
	Kept string `json:"kept"` // digest of the bytes that are kept
}

// CutAt is where the tail begins, from the partition's start.
func (d Document) CutAt() int64 {
	if d.Base == nil {
		return SuperblockSize
	}
	return d.Base.Cut
}

// PartitionSize is the size of the image's squashfs with its padding.
func (d Document) PartitionSize() int64 { return d.CutAt() + d.Tail.Size - SuperblockSize }

// SuperblockSize is the size of a squashfs's superblock, which stands at the tail's end so that the tail is hashed as
// it is written.
const SuperblockSize = 96

// Encode returns the document's bytes and their digest: the environment's.
func (d Document) Encode() (data []byte, name string, err error) {
	layers := []spec.Descriptor{}
	if b := d.Base; b != nil {
		layer := descriptor(TypeBase, b.Part)
		layer.Annotations = map[string]string{noteCut: strconv.FormatInt(b.Cut, 10), noteKept: b.Kept}
		layers = append(layers, layer)
	}
	data, err = json.Marshal(spec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: spec.MediaTypeImageManifest,
		ArtifactType: oci.TypeEnvironment,
		Config:       descriptor(TypeManifest, d.Manifest), Layers: append(layers, descriptor(TypeTail, d.Tail)),
	})
	if err != nil {
		return nil, "", fmt.Errorf("encode the document: %w", err)
	}
	return data, blob.Digest(data), nil
}

func descriptor(kind string, p Part) spec.Descriptor {
	return spec.Descriptor{MediaType: kind, Digest: digest.Digest(p.Digest), Size: p.Size}
}

// DecodeDocument reads a document, which may come from a stranger. Only what Encode would write again is one: no field
// that this version does not know has a meaning that it would miss.
func DecodeDocument(data []byte) (Document, error) {
	bad := func(why string, args ...any) (Document, error) {
		return Document{}, errs.New(errs.Invalid, "this is no environment's document: %s", fmt.Sprintf(why, args...))
	}
	if len(data) > MaxDocument {
		return bad("it has %d bytes", len(data))
	}
	var m spec.Manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return bad("%v", err)
	}
	if m.ArtifactType != oci.TypeEnvironment || len(m.Layers) < 1 || len(m.Layers) > 2 {
		return bad("it describes %.100q with %d layers", m.ArtifactType, len(m.Layers))
	}
	d := Document{Manifest: partOf(m.Config), Tail: partOf(m.Layers[len(m.Layers)-1])}
	if len(m.Layers) == 2 {
		base, err := basePart(m.Layers[0])
		if err != nil {
			return bad("%v", err)
		}
		d.Base = &base
	}
	if err := d.check(); err != nil {
		return bad("%v", err)
	}
	if again, _, err := d.Encode(); err != nil || !bytes.Equal(again, data) {
		return bad("it holds more than its parts")
	}
	return d, nil
}

func partOf(d spec.Descriptor) Part { return Part{Digest: d.Digest.String(), Size: d.Size} }

func basePart(d spec.Descriptor) (BasePart, error) {
	cut, err := strconv.ParseInt(d.Annotations[noteCut], 10, 64)
	if err != nil {
		return BasePart{}, fmt.Errorf("the base's cut is %.40q", d.Annotations[noteCut])
	}
	return BasePart{Part: partOf(d), Cut: cut, Kept: d.Annotations[noteKept]}, nil
}

// check makes sure that the parts can be what they say.
func (d Document) check() error {
	named := map[string]string{"manifest": d.Manifest.Digest, "tail": d.Tail.Digest}
	if b := d.Base; b != nil {
		named["base"], named["base's kept part"] = b.Digest, b.Kept
		if b.Cut < SuperblockSize || b.Cut > b.Size || b.Size > maxPart {
			return fmt.Errorf("the base of %d bytes is cut at %d", b.Size, b.Cut)
		}
	}
	for what, name := range named {
		if _, ok := blob.Hex(name); !ok {
			return fmt.Errorf("the %s has the digest %.80q", what, name)
		}
	}
	if d.Manifest.Size < 2 || d.Manifest.Size > MaxSize || d.Tail.Size <= SuperblockSize || d.Tail.Size > maxPart ||
		d.PartitionSize()%4096 != 0 {
		return fmt.Errorf("a manifest of %d and a tail of %d bytes do not make an image", d.Manifest.Size, d.Tail.Size)
	}
	return nil
}

// maxPart bounds a part, so that the sizes of all parts can be added up.
const maxPart = 1 << 61

// MaxSize bounds a manifest, which may be a stranger's: it lies in the owner's record, and whoever lists what is
// shared reads it.
const MaxSize = 1 << 20
