package images

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"slipway/images/blob"
	"slipway/images/libdir"
	"slipway/images/manifest"
	"slipway/images/progress"
	"slipway/internal/errs"
)

// Settled lists the environments that are signed and looked into, by digest: what is to be copied to other places.
func (l *Library) Settled() ([]string, error) { return l.named("facts", "*.json") }

// Known lists every environment that anything here leads to, whatever has become of its files.
func (l *Library) Known() ([]string, error) {
	var all []string
	for _, pattern := range [][]string{{"documents", "*.json"}, {"records", "*", "*.json"}} {
		list, err := l.named(pattern...)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// named returns the digests that files are named by. A directory that cannot be read is an error: Glob would take it
// for an empty one.
func (l *Library) named(pattern ...string) ([]string, error) {
	if _, err := os.ReadDir(l.dir.Path(pattern[0])); err != nil {
		return nil, err
	}
	files, err := filepath.Glob(l.dir.Path(pattern...))
	var out []string
	for _, path := range files {
		if digest := blob.Prefix + strings.TrimSuffix(filepath.Base(path), ".json"); libdir.HexOrNone(digest) != "none" {
			out = append(out, digest)
		}
	}
	return out, err
}

// bringBack makes an image anew out of what the stores have of it. Every byte is compared with the digest.
func (l *Library) bringBack(ctx context.Context, digest string) error {
	if l.cfg.Fetch == nil {
		return errs.New(errs.NotFound, "there are no copies of it: the site has no other stores")
	}
	_, err := l.returns.Do(ctx, digest, nil, func(ctx context.Context, _ *progress.Meter) (struct{}, error) {
		return struct{}{}, l.dir.Explain(l.restore(ctx, digest), 0)
	})
	if err != nil {
		return fmt.Errorf("bring it back from a store: %w", err)
	}
	l.log.Warn("an environment came back from the stores", "digest", digest)
	return nil
}

func (l *Library) restore(ctx context.Context, digest string) error {
	work, err := os.MkdirTemp(l.dir.Path("work"), "return-")
	if err != nil {
		return err
	}
	defer l.discard(work)
	encoded, d, err := l.returned(ctx, digest, work)
	if err != nil {
		return err
	}
	wanted := []manifest.Part{d.Manifest, d.Tail}
	if d.Base != nil && !l.HasBase(ctx, d.Base.Part) {
		wanted = append(wanted, d.Base.Part)
	}
	for _, p := range wanted {
		if err := l.cfg.Fetch(ctx, p.Digest, p.Size, returnedPart(work, p.Digest)); err != nil {
			return err
		}
	}
	if _, err := os.Lstat(l.dir.Image(digest)); errors.Is(err, fs.ErrNotExist) {
		// What was found out of the file that has gone does not hold for the new one, which is signed anew.
		if err := os.Remove(l.dir.Path("facts", libdir.HexOrNone(digest)+".json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	a := Adoption{
		Document: encoded, Open: func(part string) (blob.Blob, error) { return blob.Open(returnedPart(work, part)) },
	}
	if _, _, err = l.assemble(ctx, a, d, digest, work); err == nil {
		l.later(digest)
	}
	return err
}

func returnedPart(work, digest string) string {
	return filepath.Join(work, "part-"+libdir.HexOrNone(digest))
}

// returned returns the document: the one that is here, or a copy where that is damaged or gone.
func (l *Library) returned(ctx context.Context, digest, work string) (encoded []byte, d manifest.Document, err error) {
	if d, err = l.document(digest); err == nil {
		encoded, _, err = d.Encode()
		return encoded, d, err
	}
	path := returnedPart(work, digest)
	if err := l.cfg.Fetch(ctx, digest, manifest.MaxDocument, path); err != nil {
		return nil, manifest.Document{}, err
	}
	if encoded, err = os.ReadFile(path); err != nil {
		return nil, manifest.Document{}, err
	}
	d, err = manifest.DecodeDocument(encoded)
	return encoded, d, err
}

// bringBase brings a base back that is not here any more, or is damaged.
func (l *Library) bringBase(ctx context.Context, base manifest.BasePart) error {
	if l.cfg.Fetch == nil {
		return noBase(base.Digest)
	}
	work, err := os.MkdirTemp(l.dir.Path("work"), "return-")
	if err != nil {
		return l.dir.Explain(err, 0)
	}
	defer l.discard(work)
	a := Adoption{Open: func(part string) (blob.Blob, error) {
		path := returnedPart(work, part)
		if err := l.cfg.Fetch(ctx, part, base.Size, path); err != nil {
			return nil, err
		}
		return blob.Open(path)
	}}
	f, err := l.baseFor(ctx, a, base, work)
	if err != nil {
		return errors.Join(noBase(base.Digest), l.dir.Explain(err, 0))
	}
	defer f.Close()
	if f.Name() == l.dir.Base(base.Digest) {
		return nil // another call has brought it
	}
	if err := l.publishBase(ctx, f.Name(), base.Part); err != nil {
		return l.dir.Explain(err, 0)
	}
	l.log.Warn("a base came back from the stores", "digest", base.Digest)
	return nil
}
