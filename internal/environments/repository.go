package environments

import (
	"cmp"
	"context"
	"slices"

	"slipway/images"
	"slipway/images/blob"
	"slipway/images/oci"
	"slipway/images/registry"
	"slipway/internal/errs"
)

// registryEntry is an environment in a repository.
type registryEntry struct {
	digest       string
	architecture string // empty: nobody has looked
	tags         []string
}

// repositoryView is one repository as one caller sees it. Its documents are made when they are asked for, always the
// same ones for an environment that has been signed.
type repositoryView struct {
	library *images.Library
	list    func() ([]registryEntry, error)
}

func noSuch(what string) error {
	return errs.New(errs.NotFound, "there is no %.200q here that you may read", what).
		With("`slipway envs` lists your environments")
}

// documents are all that stand for an environment.
type documents struct {
	sif   registry.Document // of the SIF
	image oci.Image         // in the index of a tag
}

// documentsOf makes the documents of an environment.
func (s *repositoryView) documentsOf(digest string) (documents, error) {
	p, err := s.library.Parts(digest)
	if err != nil {
		return documents{}, err
	}
	named, err := p.SIF()
	if err != nil {
		return documents{}, err
	}
	architecture, err := p.Architecture()
	if err != nil {
		return documents{}, err
	}
	out := documents{
		sif: registry.Document{MediaType: oci.TypeManifest, Data: oci.SIF(digest, named.Digest, named.Size)},
	}
	sif := oci.Describe(oci.TypeManifest, out.sif.Data)
	out.image = oci.Image{Architecture: architecture, Environment: oci.Describe(oci.TypeManifest, p.Encoded), SIF: &sif}
	return out, nil
}

// index makes the index of a tag: what it stands for on each architecture. One that is not signed yet, or is damaged,
// is left out as long as there is another.
func (s *repositoryView) index(all []registryEntry, tag string) (registry.Document, error) {
	var list []oci.Image
	var missing error
	for _, e := range all {
		if !slices.Contains(e.tags, tag) {
			continue
		}
		docs, err := s.documentsOf(e.digest)
		if err == nil {
			list = append(list, docs.image)
		} else if missing == nil {
			missing = err
		}
	}
	if len(list) == 0 {
		return registry.Document{}, cmp.Or(missing, noSuch(tag))
	}
	return registry.Document{MediaType: oci.TypeIndex, Data: oci.Index(list)}, nil
}

// provenance returns the documents of what has been said about an environment.
func provenance(p *images.Parts) (docs []registry.Document, contents [][]byte, err error) {
	contents, err = p.Statements()
	for _, envelope := range contents {
		subject := oci.Describe(oci.TypeManifest, p.Encoded)
		docs = append(
			docs,
			registry.Document{MediaType: oci.TypeManifest, Data: oci.Referrer(subject, oci.TypeProvenance, envelope)},
		)
	}
	return docs, contents, err
}

// find returns the environment of a tag or digest.
func (s *repositoryView) find(reference string) (digest string, ok bool, err error) {
	all, err := s.list()
	digest, ok = find(all, reference)
	return digest, ok, err
}

func find(all []registryEntry, reference string) (digest string, ok bool) {
	for _, e := range all {
		if e.digest == reference || slices.Contains(e.tags, reference) {
			return e.digest, true
		}
	}
	return "", false
}

// Manifest returns the index of a tag, or any of the documents by its digest.
func (s *repositoryView) Manifest(_ context.Context, reference string) (registry.Document, error) {
	all, err := s.list()
	if err != nil {
		return registry.Document{}, err
	}
	digest, ok := find(all, reference)
	if ok && digest == reference {
		p, err := s.library.Parts(digest)
		if err != nil {
			return registry.Document{}, err
		}
		return registry.Document{MediaType: oci.TypeManifest, Data: p.Encoded}, nil
	}
	if ok {
		return s.index(all, reference)
	}
	if _, fixed := blob.Hex(reference); !fixed {
		return registry.Document{}, noSuch(reference)
	}
	return s.derived(all, reference)
}

// derived finds a document that was made of an environment, by its digest.
func (s *repositoryView) derived(all []registryEntry, reference string) (registry.Document, error) {
	tags := map[string]bool{}
	for _, e := range all {
		p, err := s.library.Parts(e.digest)
		if err != nil {
			continue // its record leads to nothing, or it is damaged: others are not
		}
		made, _, err := provenance(p)
		if err != nil {
			return registry.Document{}, err
		}
		if docs, err := s.documentsOf(e.digest); err == nil {
			made = append(made, docs.sif)
		}
		for _, tag := range e.tags {
			if index, err := s.index(all, tag); err == nil && !tags[tag] {
				made = append(made, index)
			}
			tags[tag] = true
		}
		for _, d := range made {
			if blob.Digest(d.Data) == reference {
				return d, nil
			}
		}
	}
	return registry.Document{}, noSuch(reference)
}

// Blob returns a part of an environment, its SIF, or a statement about it. What is in its image was compared with the
// digests before.
func (s *repositoryView) Blob(ctx context.Context, digest string) (blob.Blob, error) {
	if digest == blob.Digest([]byte(oci.Empty)) {
		return blob.Bytes([]byte(oci.Empty)), nil
	}
	all, err := s.list()
	if err != nil {
		return nil, err
	}
	for _, e := range all {
		p, err := s.library.Parts(e.digest)
		if err != nil {
			continue // as above
		}
		b, err := s.partOf(ctx, p, digest)
		if !errs.Is(err, errs.NotFound) {
			return b, err
		}
	}
	return nil, noSuch(digest)
}

func (s *repositoryView) partOf(ctx context.Context, p *images.Parts, digest string) (blob.Blob, error) {
	if named, err := p.SIF(); err == nil && named.Digest == digest {
		return s.open(ctx, p)
	}
	d := p.Document
	if digest == d.Manifest.Digest || digest == d.Tail.Digest || d.Base != nil && digest == d.Base.Digest {
		if _, err := s.library.Ready(ctx, p.Digest); err != nil {
			return nil, err
		}
		return p.Blob(ctx, digest)
	}
	_, contents, err := provenance(p)
	for _, envelope := range contents {
		if blob.Digest(envelope) == digest {
			return blob.Bytes(envelope), nil
		}
	}
	if err != nil {
		return nil, err
	}
	return nil, noSuch(digest)
}

// open opens a SIF whose bytes are the environment's.
func (s *repositoryView) open(ctx context.Context, p *images.Parts) (blob.Blob, error) {
	if _, err := s.library.Ready(ctx, p.Digest); err != nil {
		return nil, err
	}
	return p.OpenSIF()
}

// Tags returns all tags.
func (s *repositoryView) Tags(context.Context) ([]string, error) {
	all, err := s.list()
	var out []string
	for _, e := range all {
		out = append(out, e.tags...)
	}
	slices.Sort(out)
	return slices.Compact(out), err
}

// Referrers returns the statements about an environment.
func (s *repositoryView) Referrers(_ context.Context, digest string) ([]oci.Descriptor, error) {
	found, ok, err := s.find(digest)
	if err != nil || !ok || found != digest {
		return nil, err
	}
	p, err := s.library.Parts(digest)
	if err != nil {
		return nil, err
	}
	docs, _, err := provenance(p)
	var out []oci.Descriptor
	for _, doc := range docs {
		d := oci.Describe(doc.MediaType, doc.Data)
		d.ArtifactType = oci.TypeProvenance
		out = append(out, d)
	}
	return out, err
}

// SIF returns the file of an environment, by its tag or digest.
func (s *repositoryView) SIF(ctx context.Context, reference string) (blob.Blob, string, error) {
	digest, ok, err := s.find(reference)
	if err != nil {
		return nil, "", err
	}
	if !ok {
		return nil, "", noSuch(reference)
	}
	p, err := s.library.Parts(digest)
	if err != nil {
		return nil, "", err
	}
	named, err := p.SIF()
	if err != nil {
		return nil, "", err
	}
	b, err := s.open(ctx, p)
	return b, named.Digest, err
}
