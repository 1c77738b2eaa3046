package images

import (
	"context"
	"fmt"
	"io"

	"slipway/images/blob"
	"slipway/images/manifest"
	"slipway/images/statements"
)

// Verified says what was proven of an environment.
type Verified struct {
	Document manifest.Document
	SIF      manifest.Part          // the whole file, with its signatures
	Signers  []string               // ids of accepted keys that have signed the image
	Stated   []statements.Statement // by accepted keys
}

// Verify reads all bytes of an environment again, compares them with its digest, and checks what was signed.
func (l *Library) Verify(ctx context.Context, digest string) (Verified, error) {
	d, err := l.document(digest)
	if err != nil {
		return Verified{}, fmt.Errorf("verify: %w", err)
	}
	l.signing.RLock()
	defer l.signing.RUnlock()
	sum := blob.NewHasher(io.Discard)
	whole, err := l.openWhole(ctx, digest, d)
	if err != nil {
		return Verified{}, fmt.Errorf("verify %s: %w", digest, err)
	}
	defer whole.Close()
	image, err := l.compareBytes(ctx, whole.Whole, d, digest, sum)
	if err == nil {
		err = l.compareSignatures(ctx, whole.File, image, digest)
	}
	if err != nil {
		return Verified{}, fmt.Errorf("verify %s: %w", digest, err)
	}
	out := Verified{Document: d, SIF: manifest.Part{Digest: sum.Digest(), Size: sum.Size()}}
	if l.cfg.Keys == nil {
		return out, nil
	}
	if len(image.Signatures) > 0 {
		if out.Signers, err = image.Verify(ctx, l.unseal, nil); err != nil {
			return out, fmt.Errorf("verify %s: %w", digest, err)
		}
	}
	out.Stated, err = l.Statements.List(digest)
	return out, err
}
