package images

import (
	"context"

	"slipway/images/export"
	"slipway/images/manifest"
	"slipway/images/records"
	"slipway/images/tree"
	"slipway/internal/errs"
)

// Thawed is what a session starts from.
type Thawed struct {
	Image string // the engine's ID of the image that the changes are over
	// Fill writes the changes into upper, an empty directory that becomes an overlay's upper one.
	Fill func(ctx context.Context, upper string) error
}

// Thaw returns what a session needs to start from an environment.
func (l *Library) Thaw(ctx context.Context, digest string) (Thawed, error) {
	if _, err := l.Ready(ctx, digest); err != nil { // first: it may have to come back from another store
		return Thawed{}, err
	}
	d, err := l.document(digest)
	if err != nil {
		return Thawed{}, err
	}
	if d.Base == nil {
		return Thawed{}, errs.New(
			errs.Conflict, "the environment %s stands on no base, so no session can start from it", digest,
		).With("run jobs in it, or start from its image and freeze again")
	}
	m, err := l.manifest(digest)
	if err != nil {
		return Thawed{}, err
	}
	if err := (records.Environment{Content: records.Content{Digest: digest, Manifest: m}}).RunsHere(); err != nil {
		return Thawed{}, err
	}
	if err := l.mayStartFrom(digest, *d.Base, m.Base); err != nil {
		return Thawed{}, err
	}
	return Thawed{
		Image: m.Base.Digest,
		Fill:  func(ctx context.Context, upper string) error { return l.fill(ctx, digest, *d.Base, upper) },
	}, nil
}

// fill writes an environment's changes over its base into an upper directory.
func (l *Library) fill(ctx context.Context, digest string, base manifest.BasePart, upper string) error {
	if !l.baseIsSound(ctx, base.Part) {
		if err := l.bringBase(ctx, base); err != nil {
			return err
		}
	}
	b, err := l.openBase(base.Digest)
	if err != nil {
		return err
	}
	defer b.Release()
	v, err := l.view(digest)
	if err != nil {
		return err
	}
	defer v.Close()
	dir, err := tree.OpenDir(upper)
	if err != nil {
		return err
	}
	defer dir.Close()
	return export.Upper(ctx, export.UpperConfig{Base: b.Image, Env: v.image, Dir: dir})
}
