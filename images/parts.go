package images

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"slipway/images/blob"
	"slipway/images/sif"
	"slipway/internal/errs"
)

// Parts are what an environment consists of for other places: the document that names it, what the document names, the SIF, and
// the signed statements on where it comes from.
type Parts struct {
	Digest       string
	Encoded      []byte   // the document, byte for byte what Digest is the digest of
	Document     Document // the same, read
	Architecture string   // as Go and OCI write it
	SIF          Part     // the whole file with its signatures; empty until it was settled
	Statements   [][]byte // envelopes by accepted keys

	library *Library
}

// Parts gives the parts of an environment. What it consists of has been compared with its digest.
func (l *Library) Parts(ctx context.Context, digest string) (*Parts, error) {
	if _, err := l.Ready(ctx, digest); err != nil {
		return nil, err
	}
	p, err := l.Outline(digest)
	if err != nil {
		return nil, err
	}
	m, err := l.manifest(digest)
	if err != nil {
		return nil, err
	}
	p.Architecture = m.Architecture
	return p, nil
}

// Outline gives the parts of an environment without reading them, and without the architecture: who gets them compares them.
func (l *Library) Outline(digest string) (*Parts, error) {
	d, err := l.document(digest)
	if err != nil {
		return nil, err
	}
	encoded, _, err := d.encode()
	if err != nil {
		return nil, err
	}
	p := &Parts{Digest: digest, Encoded: encoded, Document: d, library: l}
	if known, err := l.facts(digest); err == nil {
		p.SIF = known.SIF
	}
	p.Statements, err = l.believed(digest)
	return p, err
}

// Blob gives what the document names: the manifest, the base or the tail.
func (p *Parts) Blob(digest string) (blob.Blob, error) {
	d := p.Document
	file := p.library.blob(p.Digest)
	var out blob.Blob
	var err error
	switch {
	case digest == d.Manifest.Digest:
		out, err = blob.Part(file, sif.PartitionOffset+d.partition(), d.Manifest.Size)
	case digest == d.Tail.Digest:
		out, err = tailOf(file, d)
	case d.Base != nil && digest == d.Base.Digest:
		out, err = blob.Open(p.library.basePath(digest))
	default:
		err = fs.ErrNotExist
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errs.New(errs.NotFound, "the environment %s has no part %.80q here", p.Digest, digest)
	}
	return out, err
}

// tailOf puts a tail together: it ends with the superblock, which stands at the partition's beginning.
func tailOf(file string, d Document) (blob.Blob, error) {
	own, err := blob.Part(file, sif.PartitionOffset+d.cut(), d.Tail.Size-superblockSize)
	if err != nil {
		return nil, err
	}
	super, err := blob.Part(file, sif.PartitionOffset, superblockSize)
	if err != nil {
		return nil, errors.Join(err, own.Close())
	}
	return blob.Join(own, super), nil
}

// OpenSIF gives the whole file. It is of kind errs.Unavailable until the file was signed and its digest is known.
func (p *Parts) OpenSIF() (blob.Blob, error) {
	if p.SIF.Digest == "" {
		return nil, errs.New(errs.Unavailable, "the environment %s is being signed", p.Digest).With("try again in some seconds")
	}
	b, err := blob.Open(p.library.blob(p.Digest))
	if err != nil {
		return nil, fmt.Errorf("open the SIF of %s: %w", p.Digest, err)
	}
	if b.Size() != p.SIF.Size {
		return nil, errors.Join(damaged("its file has %d bytes and had %d", b.Size(), p.SIF.Size), b.Close())
	}
	return b, nil
}

// believed gives the statements on an environment that accepted keys have signed, as they are kept.
func (l *Library) believed(digest string) ([][]byte, error) {
	if l.cfg.Keys == nil {
		return nil, nil
	}
	files, err := filepath.Glob(l.path("statements", hexOrNone(digest), "*.json"))
	if err != nil {
		return nil, err
	}
	var out [][]byte
	for _, path := range files {
		envelope, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if _, _, err := l.cfg.Keys.Verify(envelope, digest); err == nil {
			out = append(out, envelope)
		}
	}
	return out, nil
}
