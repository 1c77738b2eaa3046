package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"oras.land/oras-go/v2/registry/remote/auth"

	"slipway/images/blob"
	"slipway/images/oci"
	"slipway/internal/errs"
)

const maxDepth = 4

// image is one in a directory, as the OCI image layout has it.
type image struct {
	dir       string
	cargo     []cargo
	documents []document // what others name comes before them
}

type document struct {
	mediaType string
	data      []byte
}

// PushImage sends an OCI image from a layout directory, and gives the digest that the tag names then. A layout with
// several images is pushed as one index.
func (c *Client) PushImage(ctx context.Context, to Reference, dir string, report func(Progress)) (string, error) {
	if to.Tag == "" {
		return "", errs.Bad("reference", to, "name a tag to push to")
	}
	l := &image{dir: dir}
	if err := l.read(); err != nil {
		return "", fmt.Errorf("read the image in %s: %w", dir, err)
	}
	ctx, p := c.open(ctx, to, report, auth.ActionPull, auth.ActionPush)
	if err := p.sendAll(ctx, l.cargo, ""); err != nil {
		return "", err
	}
	last := len(l.documents) - 1
	for _, d := range l.documents[:last] {
		if err := p.put(ctx, blob.Digest(d.data), d.mediaType, d.data); err != nil {
			return "", err
		}
	}
	top := l.documents[last]
	return blob.Digest(top.data), p.put(ctx, to.Tag, top.mediaType, top.data)
}

// read takes up all documents of the layout, and what they name.
func (l *image) read() error {
	data, err := readSmall(filepath.Join(l.dir, "index.json"))
	if err != nil {
		return err
	}
	m, err := oci.Parse(data)
	if err != nil {
		return err
	}
	if len(m.Manifests) == 1 {
		return l.descend(m.Manifests[0], 0)
	}
	return l.add(data, m, 0)
}

func (l *image) descend(d oci.Descriptor, depth int) error {
	data, err := readSmall(l.path(d))
	if err != nil {
		return err
	}
	if got := blob.Digest(data); got != d.Digest.String() {
		return errs.New(errs.Invalid, "%s has the digest %s", d.Digest, got)
	}
	m, err := oci.Parse(data)
	if err != nil {
		return err
	}
	return l.add(data, m, depth)
}

func (l *image) add(data []byte, m oci.Manifest, depth int) error {
	if depth > maxDepth {
		return errs.New(errs.Invalid, "its indexes are nested more than %d deep", maxDepth)
	}
	for _, d := range m.Manifests {
		if err := l.descend(d, depth+1); err != nil {
			return err
		}
	}
	for _, d := range m.Blobs() {
		l.cargo = append(l.cargo, cargo{d, func(context.Context) (blob.Blob, error) { return blob.Open(l.path(d)) }})
	}
	l.documents = append(l.documents, document{m.MediaType, data})
	return nil
}

// path is where content lies. Whoever parsed the descriptor made sure of the digest.
func (l *image) path(d oci.Descriptor) string {
	name, _ := blob.Hex(d.Digest.String())
	return filepath.Join(l.dir, "blobs", "sha256", name)
}

func readSmall(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, oci.MaxManifest+1))
	return data, errors.Join(err, f.Close())
}
