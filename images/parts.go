package images

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"slipway/images/blob"
	"slipway/images/imagefile"
	"slipway/images/libdir"
	"slipway/images/manifest"
	"slipway/images/sif"
	"slipway/internal/errs"
)

// Parts are what an environment consists of for other places: the document that names it, what the document names, the
// SIF, and the signed statements on where it comes from. Nothing is read before it is asked for, and of the image
// nothing is compared with its digest: [Library.Ready] does that.
type Parts struct {
	Digest   string
	Encoded  []byte            // the document, byte for byte what Digest is the digest of
	Document manifest.Document // the same, read

	library *Library
}

// Parts returns the parts of an environment.
func (l *Library) Parts(digest string) (*Parts, error) {
	d, err := l.document(digest)
	if err != nil {
		return nil, err
	}
	encoded, _, err := d.Encode()
	return &Parts{Digest: digest, Encoded: encoded, Document: d, library: l}, err
}

// Architecture says where the environment runs, as Go and OCI write it.
func (p *Parts) Architecture() (string, error) {
	m, err := p.library.manifest(p.Digest)
	return m.Architecture, err
}

// Statements returns the envelopes on where the environment comes from that accepted keys have signed.
func (p *Parts) Statements() ([][]byte, error) { return p.library.Statements.Envelopes(p.Digest) }

// SIF names the whole file with its signatures. It is of kind errs.Unavailable until the file was signed and its digest
// is known.
func (p *Parts) SIF() (manifest.Part, error) {
	var known struct {
		SIF manifest.Part `json:"sif"` // of facts, which may be large
	}
	err := libdir.ReadJSON(p.library.dir.Path("facts", libdir.HexOrNone(p.Digest)+".json"), &known)
	if errors.Is(err, fs.ErrNotExist) {
		return manifest.Part{}, errs.New(errs.Unavailable, "the environment %s is being signed", p.Digest).
			With("try again in some seconds")
	}
	return known.SIF, err
}

// Blob returns what the document names: the manifest, the base or the tail. A base that is damaged on disk is given to
// nobody.
func (p *Parts) Blob(ctx context.Context, digest string) (blob.Blob, error) {
	d := p.Document
	file := p.library.dir.Image(p.Digest)
	var out blob.Blob
	var err error
	switch {
	case digest == d.Manifest.Digest:
		out, err = blob.Part(file, sif.PartitionOffset+d.PartitionSize(), d.Manifest.Size)
	case digest == d.Tail.Digest:
		out, err = p.library.openTail(ctx, p.Digest, d)
	case d.Base != nil && digest == d.Base.Digest:
		out, err = p.library.openSoundBase(ctx, d.Base.Part)
	default:
		err = fs.ErrNotExist
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errs.New(errs.NotFound, "the environment %s has no part %.80q here", p.Digest, digest)
	}
	return out, err
}

// openSoundBase opens the file of a base for another place. Environments that have copied of it need it no more; other
// places do.
func (l *Library) openSoundBase(ctx context.Context, base manifest.Part) (blob.Blob, error) {
	if !l.baseIsSound(ctx, base) {
		return nil, noBase(base.Digest)
	}
	return blob.Open(l.dir.Base(base.Digest))
}

// openTail puts a tail together: it ends with the superblock, which stands at the partition's beginning.
func (l *Library) openTail(ctx context.Context, digest string, d manifest.Document) (blob.Blob, error) {
	w, err := l.openWhole(ctx, digest, d)
	if err != nil {
		return nil, err
	}
	own := blob.Of(w, sif.PartitionOffset+d.CutAt(), d.Tail.Size-manifest.SuperblockSize, w)
	return blob.Join(own, blob.Of(w, sif.PartitionOffset, manifest.SuperblockSize, nil)), nil
}

// OpenSIF opens what SIF names.
func (p *Parts) OpenSIF() (blob.Blob, error) {
	want, err := p.SIF()
	if err != nil {
		return nil, err
	}
	w, err := p.library.openWhole(context.Background(), p.Digest, p.Document)
	if err != nil {
		return nil, fmt.Errorf("open the SIF of %s: %w", p.Digest, err)
	}
	b := blob.Of(w, 0, w.size, w)
	if b.Size() != want.Size {
		return nil, errors.Join(imagefile.Damaged("its file has %d bytes and had %d", b.Size(), want.Size), b.Close())
	}
	return b, nil
}
