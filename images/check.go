package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"slipway/images/blob"
	"slipway/images/imagefile"
	"slipway/images/libdir"
	"slipway/images/manifest"
	"slipway/images/pin"
	"slipway/images/progress"
	"slipway/images/sif"
	"slipway/internal/errs"
)

// spoil notes that an image is not what it is named, so that the next freeze of the same tree puts another in its
// place.
func (l *Library) spoil(digest string, f *os.File) {
	if st, err := libdir.StampOf(f); err == nil {
		l.spoiled.Set(digest, st)
	}
}

// isSpoilt says whether the image of a digest is known to be damaged.
func (l *Library) isSpoilt(digest string) bool {
	f, err := os.Open(l.dir.Image(digest))
	if err != nil {
		return false
	}
	defer f.Close()
	st, err := libdir.StampOf(f)
	return err == nil && l.spoiled.Is(digest, st)
}

// compareBytes reads an image for what checkImage looks at, and remembers when it is damaged.
func (l *Library) compareBytes(
	ctx context.Context, w *imagefile.Whole, d manifest.Document, digest string, also io.Writer,
) (*sif.Image, error) {
	image, err := imagefile.Check(ctx, w, d, also)
	if errs.Is(err, errs.Conflict) {
		l.spoil(digest, w.File)
		if d.Base != nil { // it may be the base that went wrong
			l.soundBases.Forget(d.Base.Digest)
		}
	}
	return image, err
}

// Ready returns the file of an environment for a run, a SIF that every user can read. All its bytes have been compared
// with the digest, by this process, and the file has not been touched since. One that is damaged or gone comes back
// from another store first, where the site has any.
func (l *Library) Ready(ctx context.Context, digest string) (path string, err error) {
	l.wanted.Keep(digest, l.cfg.Now().Add(pin.Grace)) // before it is looked at
	path, err = l.compared(ctx, digest)
	if l.cfg.Fetch == nil || !errs.Is(err, errs.NotFound) && !errs.Is(err, errs.Conflict) {
		return path, err
	}
	switch back := l.bringBack(ctx, digest); {
	case errs.Is(back, errs.Unavailable) || ctx.Err() != nil:
		return "", fmt.Errorf("%w; %w", back, err) // it may come back later
	case back != nil:
		return "", fmt.Errorf("%w; %w", err, back)
	}
	return l.compared(ctx, digest)
}

// compared returns the file of an environment once its bytes are compared: all who wait for the same one wait for one
// reading.
func (l *Library) compared(ctx context.Context, digest string) (path string, err error) {
	f, err := l.openBlob(digest)
	if err != nil {
		return "", err
	}
	defer f.Close()
	st, err := libdir.StampOf(f)
	if err != nil {
		return "", err
	}
	if l.trusted.Is(digest, st) {
		return f.Name(), nil
	}
	d, err := l.document(digest)
	if err != nil {
		return "", err
	}
	_, err = l.comparisons.Do(ctx, digest, nil, func(ctx context.Context, _ *progress.Meter) (struct{}, error) {
		return struct{}{}, l.compareImage(ctx, digest, d, true)
	})
	if err != nil {
		return "", fmt.Errorf("environment %s: %w", digest, err)
	}
	return f.Name(), nil
}

// compareImage compares the image of a digest with its document, unless this process has done so and nothing has
// touched it since. fill says that a thin one is filled before.
func (l *Library) compareImage(ctx context.Context, digest string, d manifest.Document, fill bool) error {
	l.signing.RLock()
	defer l.signing.RUnlock()
	for {
		err := l.compareOnce(ctx, digest, d, fill)
		if !errors.Is(err, errReplaced) {
			return err
		}
	}
}

func (l *Library) compareOnce(ctx context.Context, digest string, d manifest.Document, fill bool) error {
	if fill && l.isThin(digest) {
		if err := l.fillImage(ctx, digest, d); err != nil {
			return err
		}
	}
	f, err := os.Open(l.dir.Image(digest))
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := libdir.StampOf(f)
	if err != nil || l.trusted.Is(digest, st) {
		return err
	}
	whole, err := l.whole(ctx, f, digest, d)
	if err != nil {
		return err
	}
	defer whole.Close()
	image, err := l.compareBytes(ctx, whole, d, digest, io.Discard)
	if err == nil {
		err = l.compareSignatures(ctx, f, image, digest)
	}
	if err == nil && !whole.Thin() {
		l.trusted.Set(digest, st)
	}
	return err
}

// compareSignatures compares an image's signatures with those that it had when it was settled: its digest does not
// cover them.
func (l *Library) compareSignatures(ctx context.Context, f *os.File, image *sif.Image, digest string) error {
	known, err := l.facts(digest)
	if err != nil || known.Signatures == "" {
		return nil // it is to be settled yet
	}
	got, size, err := imagefile.Signatures(ctx, f, image)
	if err != nil || got == known.Signatures || size != known.SIF.Size { // of another size: it has just been signed
		return err
	}
	l.spoil(digest, f)
	return imagefile.Damaged("its signatures have the digest %s", got)
}

func (l *Library) openBlob(digest string) (*os.File, error) {
	f, err := os.Open(l.dir.Image(digest))
	if errors.Is(err, os.ErrNotExist) {
		return nil, errs.New(errs.NotFound, "there is no environment %.80q here", digest).
			With("`slipway envs` lists yours")
	}
	return f, err
}

// document returns the document of a digest, and makes sure that it is the one.
func (l *Library) document(digest string) (manifest.Document, error) {
	data, err := os.ReadFile(l.dir.Path("documents", libdir.HexOrNone(digest)+".json"))
	if errors.Is(err, os.ErrNotExist) {
		return manifest.Document{}, errs.New(errs.NotFound, "there is no environment %.80q here", digest).
			With("`slipway envs` lists yours")
	}
	if err != nil {
		return manifest.Document{}, err
	}
	if blob.Digest(data) != digest {
		return manifest.Document{}, imagefile.Damaged("its document has the digest %s", blob.Digest(data))
	}
	return manifest.DecodeDocument(data)
}
