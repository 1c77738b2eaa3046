package transfer

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"slipway/images/blob"
	"slipway/images/oci"
	"slipway/internal/errs"
)

const accepted = oci.TypeManifest + ", " + oci.TypeIndex +
	", application/vnd.docker.distribution.manifest.v2+json, application/vnd.docker.distribution.manifest.list.v2+json"

// get returns a document by tag or digest. The bytes are what a digest says.
func (p *place) get(ctx context.Context, name string) (data []byte, m oci.Manifest, err error) {
	q := query{
		what: fmt.Sprintf("get %s from %s/%s", name, p.ref.Host, p.ref.Repository), method: http.MethodGet,
		url:    p.url("manifests", name),
		header: map[string]string{"Accept": accepted}, want: []int{http.StatusOK},
	}
	err = p.persist(ctx, func() error {
		resp, err := p.do(ctx, q)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if data, err = io.ReadAll(io.LimitReader(resp.Body, oci.MaxManifest+1)); err != nil {
			return cut(q.what, err)
		}
		return nil
	})
	if err != nil {
		return nil, m, err
	}
	if _, fixed := blob.Hex(name); fixed && blob.Digest(data) != name {
		return nil, m, errs.New(errs.Invalid, "what %s gives for %s has another digest", p.ref.Host, name)
	}
	if m, err = oci.Parse(data); err != nil {
		return nil, m, fmt.Errorf("%s: %w", q.what, err)
	}
	return data, m, nil
}

// child returns a document that another names, as small as that one says.
func (p *place) child(ctx context.Context, d oci.Descriptor) ([]byte, oci.Manifest, error) {
	data, m, err := p.get(ctx, d.Digest.String())
	if err == nil && int64(len(data)) != d.Size {
		err = errs.New(errs.Invalid, "%s has %d bytes, not %d", d.Digest, len(data), d.Size)
	}
	return data, m, err
}

// put stores a document under a tag or its digest.
func (p *place) put(ctx context.Context, name, mediaType string, data []byte) error {
	q := query{
		what: fmt.Sprintf("put %s into %s/%s", name, p.ref.Host, p.ref.Repository), method: http.MethodPut,
		url:    p.url("manifests", name),
		header: map[string]string{"Content-Type": mediaType}, want: []int{http.StatusCreated, http.StatusOK},
		size: int64(len(data)), body: func() io.Reader { return bytes.NewReader(data) },
	}
	return p.persist(ctx, func() error {
		resp, err := p.do(ctx, q)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if said := resp.Header.Get("Docker-Content-Digest"); strings.HasPrefix(said, "sha256:") &&
			said != blob.Digest(data) {
			return errs.New(errs.Invalid, "%s took %s for %.80q", p.ref.Host, blob.Digest(data), said)
		}
		return nil
	})
}

// refer stores a document that is about another. A registry that does not list such documents by itself gets the list
// from oras-go, under the tag at which clients look for it.
func (p *place) refer(ctx context.Context, data []byte) error {
	d := oci.Describe(oci.TypeManifest, data)
	return p.persist(ctx, func() error {
		if err := p.repo.Manifests().Push(ctx, d, bytes.NewReader(data)); err != nil {
			return broken("put the statement "+d.Digest.String(), err)
		}
		return nil
	})
}

// about lists the documents of a type that are about another.
func (p *place) about(ctx context.Context, d oci.Descriptor, artifact string) (found []oci.Descriptor, err error) {
	err = p.persist(ctx, func() error {
		found = nil
		err := p.repo.Referrers(ctx, d, artifact, func(page []oci.Descriptor) error {
			if found = append(found, page...); len(found) > maxStatements {
				return errs.New(errs.Invalid, "more than %d statements are about %s", maxStatements, d.Digest)
			}
			return nil
		})
		if err != nil {
			return broken("list what is about "+d.Digest.String(), err)
		}
		return nil
	})
	return found, err
}
