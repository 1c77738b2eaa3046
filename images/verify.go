package images

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"slipway/images/blob"
	"slipway/images/libdir"
	"slipway/images/manifest"
	"slipway/images/signing"
)

// Verified says what was proven of an environment.
type Verified struct {
	Document manifest.Document
	SIF      manifest.Part // the whole file, with its signatures
	Signers  []string      // ids of accepted keys that have signed the image
	Stated   []Statement   // by accepted keys
}

// Statement is what a key says about where an environment comes from.
type Statement struct {
	signing.Provenance
	Key signing.Key
}

// Verify reads all bytes of an environment again, compares them with its digest, and checks what was signed.
func (l *Library) Verify(ctx context.Context, digest string) (Verified, error) {
	d, err := l.document(digest)
	if err != nil {
		return Verified{}, fmt.Errorf("verify: %w", err)
	}
	l.signing.RLock()
	defer l.signing.RUnlock()
	sum := newHasher(io.Discard)
	whole, err := l.openWhole(ctx, digest, d)
	if err != nil {
		return Verified{}, fmt.Errorf("verify %s: %w", digest, err)
	}
	defer whole.Close()
	image, err := l.compareBytes(ctx, whole.wholeImage, d, digest, sum)
	if err == nil {
		err = l.compareSignatures(ctx, whole.File, image, digest)
	}
	if err != nil {
		return Verified{}, fmt.Errorf("verify %s: %w", digest, err)
	}
	out := Verified{Document: d, SIF: manifest.Part{Digest: blob.Named(sum.sum.Sum(nil)), Size: sum.size}}
	if l.cfg.Keys == nil {
		return out, nil
	}
	if len(image.Signatures) > 0 {
		if out.Signers, err = image.Verify(ctx, l.unseal, nil); err != nil {
			return out, fmt.Errorf("verify %s: %w", digest, err)
		}
	}
	out.Stated, err = l.Statements(digest)
	return out, err
}

// Statements returns what accepted keys say about an environment. What others say is passed over.
func (l *Library) Statements(digest string) ([]Statement, error) {
	if l.cfg.Keys == nil {
		return nil, nil
	}
	files, err := filepath.Glob(l.dir.Path("statements", libdir.HexOrNone(digest), "*.json"))
	if err != nil {
		return nil, err
	}
	var out []Statement
	for _, path := range files {
		envelope, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		p, key, err := l.cfg.Keys.Verify(envelope, digest)
		if err != nil {
			l.log.Warn("a statement about an environment is not believed", "digest", digest, "file", path, "error", err)
			continue
		}
		out = append(out, Statement{p, key})
	}
	return out, nil
}
