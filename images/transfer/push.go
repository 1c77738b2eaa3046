package transfer

import (
	"context"
	"runtime"
	"slices"

	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote/auth"

	"slipway/images/blob"
	"slipway/images/oci"
	"slipway/internal/errs"
)

// Environment is what is pushed.
type Environment struct {
	Document     []byte // an OCI manifest; its digest is the environment's
	Architecture string // as Go writes it; this host's when empty
	// Blob returns what the document names. It is asked only for what the registry lacks.
	Blob       func(ctx context.Context, d oci.Descriptor) (blob.Blob, error)
	SIF        *File  // the whole image for Apptainer; nil: only what the document names
	Provenance []byte // the signed statement about it; nil: none
	From       string // a repository of the same registry that may have the base already; may be empty
}

// File is a SIF.
type File struct {
	Digest string // of its bytes
	Size   int64
	Open   func() (blob.Blob, error)
}

// Pushed says what a push has done.
type Pushed struct {
	Environment string // digest of the document
	Index       string // digest of what the tag names now
	Sent        int64  // bytes
}

// Push sends an environment and gives it the reference's tag. What the tag has for other architectures stays, and so
// does the SIF of this same environment when none is sent now.
func (c *Client) Push(ctx context.Context, to Reference, e Environment, report func(Progress)) (Pushed, error) {
	if to.Tag == "" {
		return Pushed{}, errs.Bad("reference", to, "name a tag to push to")
	}
	m, err := oci.Parse(e.Document)
	if err != nil {
		return Pushed{}, err
	}
	if m.ArtifactType != oci.TypeEnvironment {
		return Pushed{}, errs.New(
			errs.Invalid, "the document is of the type %.100q, and no environment's", m.ArtifactType,
		)
	}
	if e.Architecture == "" {
		e.Architecture = runtime.GOARCH
	}
	ctx, p := c.open(ctx, to, report, auth.ActionPull, auth.ActionPush)
	if e.From == to.Repository {
		e.From = ""
	}
	if e.From != "" {
		ctx = auth.AppendRepositoryScope(
			ctx, registry.Reference{Registry: to.Host, Repository: e.From}, auth.ActionPull,
		)
	}
	if err := p.sendAll(ctx, e.cargo(m), e.From); err != nil {
		return Pushed{}, err
	}
	index, err := p.documents(ctx, e)
	return Pushed{Environment: blob.Digest(e.Document), Index: index, Sent: p.meter.moved()}, err
}

// cargo lists the content of a push: the large parts first, and each once.
func (e Environment) cargo(m oci.Manifest) []cargo {
	var all []cargo
	for _, d := range append(slices.Clone(m.Layers), m.Config) {
		all = append(all, cargo{d, func(ctx context.Context) (blob.Blob, error) { return e.Blob(ctx, d) }})
	}
	if f := e.SIF; f != nil {
		sif := cargo{
			oci.Name(oci.TypeSIF, f.Digest, f.Size), func(context.Context) (blob.Blob, error) { return f.Open() },
		}
		all = append(all, sif, small([]byte(oci.Empty)))
	}
	if e.Provenance != nil {
		all = append(all, small(e.Provenance), small([]byte(oci.Empty)))
	}
	return all
}

func small(data []byte) cargo {
	return cargo{oci.Describe("", data), func(context.Context) (blob.Blob, error) { return blob.Bytes(data), nil }}
}

// sendAll sends what the registry lacks.
func (p *place) sendAll(ctx context.Context, all []cargo, from string) error {
	var missing []cargo
	seen := map[string]bool{}
	for _, c := range all {
		if seen[c.Digest.String()] {
			continue
		}
		seen[c.Digest.String()] = true
		found, err := p.has(ctx, c.Descriptor)
		if err != nil {
			return err
		}
		if !found {
			missing = append(missing, c)
			p.meter.expect(c.Size)
		}
	}
	for _, c := range missing {
		if err := p.send(ctx, c, from); err != nil {
			return err
		}
	}
	return nil
}

// documents stores the documents, the tag last, and gives the digest of what it names.
func (p *place) documents(ctx context.Context, e Environment) (string, error) {
	env := oci.Describe(oci.TypeManifest, e.Document)
	if err := p.put(ctx, env.Digest.String(), oci.TypeManifest, e.Document); err != nil {
		return "", err
	}
	image := oci.Image{Architecture: e.Architecture, Environment: env}
	if e.SIF != nil {
		data := oci.SIF(env.Digest.String(), e.SIF.Digest, e.SIF.Size)
		d := oci.Describe(oci.TypeManifest, data)
		if err := p.put(ctx, d.Digest.String(), oci.TypeManifest, data); err != nil {
			return "", err
		}
		image.SIF = &d
	}
	if e.Provenance != nil {
		if err := p.refer(ctx, oci.Referrer(env, oci.TypeProvenance, e.Provenance)); err != nil {
			return "", err
		}
	}
	images, err := p.beside(ctx, image)
	if err != nil {
		return "", err
	}
	index := oci.Index(images)
	return blob.Digest(index), p.put(ctx, p.ref.Tag, oci.TypeIndex, index)
}

// beside puts an image among those that the tag has. A tag that names something else is given up by whoever held it, as
// ever in a registry.
func (p *place) beside(ctx context.Context, image oci.Image) ([]oci.Image, error) {
	_, m, err := p.get(ctx, p.ref.Tag)
	if err != nil && !errs.Is(err, errs.NotFound) && !errs.Is(err, errs.Invalid) {
		return nil, err
	}
	images := []oci.Image{}
	for _, old := range m.Images() {
		switch {
		case old.Architecture != image.Architecture:
			images = append(images, old)
		case old.Environment.Digest == image.Environment.Digest && image.SIF == nil:
			image.SIF = old.SIF
		}
	}
	return append(images, image), nil
}
