package images

import (
	"context"
	"path/filepath"

	"slipway/images/libdir"
	"slipway/images/manifest"
	"slipway/images/squashfs"
	"slipway/internal/errs"
)

// Beneath is what the changes of a session lie over that was started from an environment alone, such as on a host
// without an engine. All of it is the library's: the image may have gone from the engine.
type Beneath struct {
	// Source lacks the Upper. It can be frozen as long as its changes can be grafted: its image has no directories
	// here.
	Source Source
	// Fill writes the environment's own changes into an empty directory, over which those of the session go.
	Fill func(ctx context.Context, upper string) error
	// Directory tells whose a directory of the image is; false: there is none at this path.
	Directory func(path string) (uid, gid uint32, found bool)
	// Has says whether the image has anything at a path.
	Has func(path string) bool
}

// Beneath returns what lies beneath the changes of a session that was started from an environment; done lets go of it.
func (l *Library) Beneath(ctx context.Context, digest string) (b Beneath, done func(), err error) {
	release := l.Hold(digest)
	defer func() {
		if err != nil {
			release()
		}
	}()
	base, m, err := l.standsOn(ctx, digest)
	if err != nil {
		return Beneath{}, nil, err
	}
	opened, err := l.openBase(base.Part.Digest)
	if err != nil {
		return Beneath{}, nil, err
	}
	b = beneath(opened.Image)
	b.Fill = func(ctx context.Context, upper string) error { return l.fill(ctx, digest, base.Part, upper) }
	b.Source = Source{Base: m.Base, Config: imageConfig(m), over: &base}
	return b, func() { opened.Release(); release() }, nil
}

// standsOn returns the base of an environment, which is here and sound then.
func (l *Library) standsOn(ctx context.Context, digest string) (baseRecord, manifest.Manifest, error) {
	if _, err := l.Ready(ctx, digest); err != nil {
		return baseRecord{}, manifest.Manifest{}, err
	}
	d, err := l.document(digest)
	if err != nil {
		return baseRecord{}, manifest.Manifest{}, err
	}
	if d.Base == nil {
		return baseRecord{}, manifest.Manifest{}, errs.New(
			errs.Conflict, "the environment %s stands on no base, so no session's changes over it can be kept", digest,
		).With("start from its image, and freeze again")
	}
	m, err := l.manifest(digest)
	if err != nil {
		return baseRecord{}, manifest.Manifest{}, err
	}
	if !l.baseIsSound(ctx, d.Base.Part) {
		if err := l.bringBase(ctx, *d.Base); err != nil {
			return baseRecord{}, manifest.Manifest{}, err
		}
	}
	return l.baseOf(*d.Base, m), m, ctx.Err()
}

// baseOf returns what is known of a base: what its conversion here found, or what is said in an environment that came
// from elsewhere.
func (l *Library) baseOf(part manifest.BasePart, m manifest.Manifest) baseRecord {
	files, _ := filepath.Glob(l.dir.Path("bases", "*.json"))
	for _, path := range files {
		var b baseRecord
		if err := libdir.ReadJSON(path, &b); err == nil && b.Part.Digest == part.Digest && b.Of == m.Base {
			return b
		}
	}
	return baseRecord{Key: part.Digest, Part: part, Of: m.Base, Losses: m.Losses, Added: m.Added}
}

// beneath looks into an image.
func beneath(image *squashfs.Image) Beneath {
	return Beneath{
		Has: func(path string) bool { return image.Lookup(path) != nil },
		Directory: func(path string) (uid, gid uint32, found bool) {
			n := image.Lookup(path)
			if n == nil || n.Kind != squashfs.Dir {
				return 0, 0, false
			}
			return n.UID, n.GID, true
		},
	}
}
