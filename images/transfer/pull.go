package transfer

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"oras.land/oras-go/v2/registry/remote/auth"

	"slipway/images/blob"
	"slipway/images/oci"
	"slipway/internal/errs"
)

const (
	maxStatements = 32
	maxStatement  = 1 << 20
)

// Into says where a pull puts what it receives.
type Into struct {
	// Of files named by the hexadecimal part of their digests; those that are there are not received again.
	Dir string
	// Content that is kept elsewhere and need not be received, such as a known base; nil: none.
	Have         func(d oci.Descriptor) bool
	Architecture string // as Go writes it; this host's when empty
	Limit        int64  // of all bytes together; 0: none
	// Admit says whether an environment is wanted, by its document and by what is said about it, which nobody has
	// checked. It is asked before any content is received. Nil: it is.
	Admit func(document []byte, provenance [][]byte) error
}

// Pulled is a pulled environment.
type Pulled struct {
	Digest     string            // of the document: the environment's
	Document   []byte            // an OCI manifest
	Files      map[string]string // digest to file, of all that Have did not know
	Provenance [][]byte          // statements about it, which nobody has checked
	Received   int64             // bytes
}

// Pull receives an environment by tag or digest. Its base is received too when nobody has it here.
func (c *Client) Pull(ctx context.Context, from Reference, into Into, report func(Progress)) (Pulled, error) {
	if into.Architecture == "" {
		into.Architecture = runtime.GOARCH
	}
	ctx, p := c.open(ctx, from, report, auth.ActionPull)
	document, m, err := p.environment(ctx, into.Architecture)
	if err != nil {
		return Pulled{}, err
	}
	out := Pulled{Digest: blob.Digest(document), Document: document, Files: map[string]string{}}
	wanted, err := p.wanted(m, into)
	if err != nil {
		return Pulled{}, err
	}
	if out.Provenance, err = p.provenance(ctx, oci.Describe(oci.TypeManifest, document), into.Dir); err != nil {
		return Pulled{}, err
	}
	if into.Admit != nil {
		if err := into.Admit(document, out.Provenance); err != nil {
			return Pulled{}, err
		}
	}
	for _, d := range wanted {
		if out.Files[d.Digest.String()], err = p.fetch(ctx, d, into.Dir); err != nil {
			return Pulled{}, p.lacking(d, err)
		}
	}
	out.Received = p.meter.moved()
	return out, nil
}

// Architectures lists for which machines a tag has environments. A reference to a single one gives none: it is what it
// is.
func (c *Client) Architectures(ctx context.Context, from Reference) ([]string, error) {
	ctx, p := c.open(ctx, from, nil, auth.ActionPull)
	_, m, err := p.get(ctx, p.ref.name())
	if err != nil {
		return nil, err
	}
	var out []string
	for _, i := range m.Images() {
		out = append(out, i.Architecture)
	}
	return out, nil
}

// lacking says of a part that is nowhere which one it is.
func (p *place) lacking(d oci.Descriptor, err error) error {
	if !errs.Is(err, errs.NotFound) {
		return err
	}
	return errs.New(
		errs.NotFound, "the part %s (%s) of the environment is not at %s, and not here: %w", d.Digest, d.MediaType,
		p.ref, err,
	).With("a base comes back when its image is added here again, or when an environment over it is pushed there once more")
}

// environment finds the document behind a reference: behind an index the one of the architecture, behind a SIF the one
// that it was made from.
func (p *place) environment(ctx context.Context, architecture string) ([]byte, oci.Manifest, error) {
	data, m, err := p.get(ctx, p.ref.name())
	if err != nil {
		return nil, m, err
	}
	digest := m.Annotations[oci.NoteEnvironment]
	if m.IsIndex() {
		images := m.Images()
		at := slices.IndexFunc(images, func(i oci.Image) bool { return i.Architecture == architecture })
		if at < 0 {
			return nil, m, errs.New(errs.NotFound, "%s has no environment for %s", p.ref, architecture).
				With("freeze it on such a machine; there are " + names(images))
		}
		data, m, err = p.child(ctx, images[at].Environment)
	} else if digest != "" {
		if _, ok := blob.Hex(digest); !ok {
			return nil, m, errs.New(
				errs.Invalid, "%s is a SIF of the environment %.80q, which is no digest", p.ref, digest,
			)
		}
		data, m, err = p.get(ctx, digest)
	}
	if err == nil && (m.ArtifactType != oci.TypeEnvironment || m.IsIndex()) {
		err = errs.New(errs.Invalid, "%s is no environment of Slipway", p.ref).
			With("run an ordinary image from a session or with Apptainer")
	}
	return data, m, err
}

func names(images []oci.Image) string {
	list := []string{}
	for _, i := range images {
		list = append(list, i.Architecture)
	}
	return fmt.Sprintf("%q", list)
}

// wanted lists what has to be received, each once, and counts it.
func (p *place) wanted(m oci.Manifest, into Into) ([]oci.Descriptor, error) {
	var list []oci.Descriptor
	var total int64
	for _, d := range m.Blobs() {
		if into.Have != nil && into.Have(d) || slices.ContainsFunc(list, func(other oci.Descriptor) bool { return other.Digest == d.Digest }) {
			continue
		}
		list = append(list, d)
		p.meter.expect(d.Size)
		if total += d.Size; total < 0 || into.Limit > 0 && total > into.Limit {
			return nil, errs.New(
				errs.OverQuota, "%s has more than the %d bytes that may be received", p.ref, into.Limit,
			)
		}
	}
	return list, nil
}

// provenance receives what has been said about an environment.
func (p *place) provenance(ctx context.Context, env oci.Descriptor, dir string) ([][]byte, error) {
	found, err := p.about(ctx, env, oci.TypeProvenance)
	if err != nil {
		return nil, err
	}
	var all [][]byte
	for _, d := range found {
		_, m, err := p.child(ctx, d)
		if err != nil {
			return nil, err
		}
		if m.Subject == nil || m.Subject.Digest != env.Digest || len(m.Layers) != 1 || m.Layers[0].Size > maxStatement {
			continue // not a statement about this
		}
		statement, err := p.statement(ctx, m.Layers[0], dir)
		if err != nil {
			return nil, err
		}
		all = append(all, statement)
	}
	return all, nil
}

func (p *place) statement(ctx context.Context, d oci.Descriptor, dir string) ([]byte, error) {
	tmp, err := os.MkdirTemp(dir, ".statement-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	path, err := p.fetch(ctx, d, tmp)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Clean(path))
}
