package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"slipway/images/bases"
	"slipway/images/blob"
	"slipway/images/export"
	"slipway/images/imagefile"
	"slipway/images/libdir"
	"slipway/images/manifest"
	"slipway/images/progress"
	"slipway/images/records"
	"slipway/images/sif"
	"slipway/images/squashfs"
	"slipway/internal/errs"
)

// Adoption asks that an environment which was made elsewhere be one of the owner's here.
type Adoption struct {
	Owner      string
	Name       string // optional
	Tag        string // optional, with a name only
	Note       string // optional, for people
	From       string // where it comes from, for people: a reference
	Document   []byte
	Statements [][]byte // on where it comes from, by whomever
	Unsigned   bool     // by the owner's or an administrator's word: nobody whom the site trusts need vouch for it
	// Open returns what the document names. It is asked for the manifest and the tail in every case, and for the base
	// only when that is not here: who has not got the owner's own part of an environment does not get it by naming it.
	Open     func(digest string) (blob.Blob, error)
	Progress func(progress.Progress) // may be nil
}

func (a Adoption) tell(s progress.Stage, done, total int64) {
	if a.Progress != nil {
		a.Progress(progress.Progress{Stage: s, Bytes: done, Total: total})
	}
}

// request is the adoption as the record of a freeze.
func (a Adoption) request() Request {
	from := []rune("pulled from " + a.From)
	return Request{
		Owner: a.Owner, Name: a.Name, Tag: a.Tag, Note: a.Note, Key: string(from[:min(len(from), records.MaxOwner)]),
	}
}

// keepForeign is how long a base is kept for a pull that counts on it, where no image was converted into it here.
const keepForeign = time.Hour

// HasBase says whether a base is here, whole, so that nobody needs to bring it; no sweep takes it then. One that is
// damaged is taken away.
func (l *Library) HasBase(ctx context.Context, b manifest.Part) bool {
	keep := keepForeign
	if known, err := l.converted(func(r baseRecord) bool { return r.Part.Digest == b.Digest }); known || err != nil {
		keep = keepBase
	}
	l.keepFor(b.Digest, keep)
	return l.baseIsThere(b) && l.baseIsSound(ctx, b)
}

func (l *Library) baseIsThere(b manifest.Part) bool {
	st, err := os.Stat(l.dir.Base(b.Digest))
	return err == nil && st.Size() == b.Size
}

// Admits says whether an adoption is refused whatever its parts are: by its names, its document, for want of somebody
// who vouches for it, or of room. Asked before anything is received, it spares the way.
func (l *Library) Admits(ctx context.Context, a Adoption) (manifest.Document, error) {
	req := a.request()
	if !records.Usable(req.Owner) || !records.Usable(req.Key) {
		return manifest.Document{}, errs.Bad(
			"owner", a.Owner, fmt.Sprintf("give 1 to %d characters of valid UTF-8", records.MaxOwner),
		)
	}
	if err := (records.Label{Name: a.Name, Tag: a.Tag, Note: a.Note}).Validate(); err != nil {
		return manifest.Document{}, err
	}
	d, err := manifest.DecodeDocument(a.Document)
	if err != nil {
		return manifest.Document{}, err
	}
	if len(l.Statements.Accepted(blob.Digest(a.Document), a.Statements)) == 0 && !a.Unsigned {
		return manifest.Document{}, errs.New(
			errs.Forbidden, "nobody whom this site trusts has signed where the environment %s comes from",
			blob.Digest(a.Document),
		).With("have the administrator trust the other site's key (a file in the keys' directory, below trusted), or take it as it is with --unsigned")
	}
	own, err := l.ownOf(a, d)
	if err != nil {
		return manifest.Document{}, err
	}
	if _, err := l.roomFor(ctx, a.Owner, "", blob.Digest(a.Document), own); err != nil {
		return manifest.Document{}, err
	}
	return d, l.holds(d)
}

// ownOf returns the bytes of an adoption that count against its owner's quota. A base counts too when nobody but the
// owner says that it is one: it could be anything, and would lie here for her alone.
func (l *Library) ownOf(a Adoption, d manifest.Document) (int64, error) {
	if d.Base == nil || len(l.Statements.Accepted(blob.Digest(a.Document), a.Statements)) > 0 {
		return d.Tail.Size, nil
	}
	known, err := l.converted(func(b baseRecord) bool { return b.Part.Digest == d.Base.Digest })
	if known || err != nil {
		return d.Tail.Size, err
	}
	return d.Tail.Size + d.Base.Size, nil
}

// converted says whether an image was converted here whose record is as is says.
func (l *Library) converted(is func(baseRecord) bool) (bool, error) {
	files, err := filepath.Glob(l.dir.Path("bases", "*.json"))
	for _, path := range files {
		var b baseRecord
		if err := libdir.ReadJSON(path, &b); err == nil && is(b) {
			return true, nil
		}
	}
	return false, err
}

// holds makes sure that there is room for what a document names, before it is brought.
func (l *Library) holds(d manifest.Document) error {
	need := d.PartitionSize() + d.Manifest.Size
	if d.Base != nil && !l.baseIsThere(d.Base.Part) {
		need += d.Base.Size
	}
	free, err := l.dir.Free()
	if err != nil {
		return err
	}
	if need < 0 || need > free {
		return errs.New(
			errs.NoSpace, "the environment needs %d MB, and %d MB are free on the file system of %s", need>>20,
			free>>20, l.dir,
		).With("have the administrator make room")
	}
	return nil
}

// Adopt brings an environment in: it puts base and tail together, compares every byte with the document, and enters it
// for its owner. Nothing of what was brought stays when it fails.
func (l *Library) Adopt(ctx context.Context, a Adoption) (records.Environment, error) {
	name := blob.Digest(a.Document)
	d, err := l.Admits(ctx, a)
	if err != nil {
		return records.Environment{}, fmt.Errorf("adopt %s: %w", name, err)
	}
	start := time.Now()
	m, size, err := l.bring(ctx, a, d, name)
	if err != nil {
		return records.Environment{}, fmt.Errorf("adopt %s: %w", name, err)
	}
	vouched := l.Statements.Accepted(name, a.Statements)
	for _, envelope := range vouched {
		if err := l.Statements.Save(name, envelope); err != nil {
			return records.Environment{}, fmt.Errorf("adopt %s: %w", name, l.dir.Explain(err, 0))
		}
	}
	l.later(name)
	own, err := l.ownOf(a, d)
	if err != nil {
		return records.Environment{}, fmt.Errorf("adopt %s: %w", name, err)
	}
	e, err := l.enter(
		a.request(), frozen{Content: records.Content{Digest: name, Size: size, Own: own, Base: m.Base, Manifest: m}},
	)
	if err != nil {
		return records.Environment{}, fmt.Errorf("adopt %s: %w", name, l.dir.Explain(err, 0))
	}
	// The record of who took in what nobody has vouched for.
	l.log.Info("adopted an environment", "digest", name, "owner", a.Owner, "from", a.From, "statements", len(vouched), "unsigned", len(vouched) == 0,
		"bytes", size, "took", time.Since(start).Round(time.Millisecond))
	a.tell(progress.Done, size, size)
	return e, nil
}

// bring makes the image of what came and gives it its place.
func (l *Library) bring(
	ctx context.Context, a Adoption, d manifest.Document, name string,
) (manifest.Manifest, int64, error) {
	work, err := os.MkdirTemp(l.dir.Path("work"), "adopt-")
	if err != nil {
		return manifest.Manifest{}, 0, l.dir.Explain(err, 0)
	}
	defer l.discard(work)
	m, size, err := l.assemble(ctx, a, d, name, work)
	return m, size, l.dir.Explain(err, 0)
}

func (l *Library) assemble(
	ctx context.Context, a Adoption, d manifest.Document, name, work string,
) (manifest.Manifest, int64, error) {
	about, m, err := broughtManifest(a, d)
	if err != nil {
		return manifest.Manifest{}, 0, err
	}
	tail, err := a.Open(d.Tail.Digest)
	if err != nil {
		return manifest.Manifest{}, 0, err
	}
	defer tail.Close()
	if tail.Size() != d.Tail.Size {
		return manifest.Manifest{}, 0, lied("its own part has %d bytes, not %d", tail.Size(), d.Tail.Size)
	}
	path := filepath.Join(work, "image.sif")
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return manifest.Manifest{}, 0, err
	}
	defer file.Close()
	newBase, err := l.rebuild(ctx, a, d, tail, file, work)
	if err != nil {
		return manifest.Manifest{}, 0, err
	}
	a.tell(progress.Checking, 0, d.PartitionSize())
	if err := sif.Finish(file, m.Architecture, d.PartitionSize(), about); err != nil {
		return manifest.Manifest{}, 0, err
	}
	if err := soundImage(ctx, file, d); err != nil {
		return manifest.Manifest{}, 0, err
	}
	a.tell(progress.Writing, 0, 0)
	if newBase != "" {
		if err := l.publishBase(ctx, newBase, d.Base.Part); err != nil {
			return manifest.Manifest{}, 0, err
		}
	}
	size, _, err := l.admit(ctx, draftFile{file, path, nil, true}, d, a.Document, name)
	return m, size, err
}

func lied(format string, args ...any) error {
	return errs.New(
		errs.Invalid, "what came is not the environment that its document describes: %s", fmt.Sprintf(format, args...),
	).With("fetch it again; when it stays so, it was made to deceive")
}

// broughtManifest reads the manifest, whose bytes go into the image as they are.
func broughtManifest(a Adoption, d manifest.Document) ([]byte, manifest.Manifest, error) {
	b, err := a.Open(d.Manifest.Digest)
	if err != nil {
		return nil, manifest.Manifest{}, err
	}
	defer b.Close()
	about, err := io.ReadAll(io.LimitReader(blob.Reader(b), manifest.MaxSize+1))
	if err != nil {
		return nil, manifest.Manifest{}, err
	}
	if int64(len(about)) != d.Manifest.Size || blob.Digest(about) != d.Manifest.Digest {
		return nil, manifest.Manifest{}, lied(
			"its manifest of %d bytes has the digest %s", len(about), blob.Digest(about),
		)
	}
	m, err := manifest.Decode(about)
	return about, m, err
}

// rebuild writes the squashfs into file. newBase names the file of a base that was not here before.
func (l *Library) rebuild(
	ctx context.Context, a Adoption, d manifest.Document, tail blob.Blob, file *os.File, work string,
) (newBase string, err error) {
	if d.Base == nil {
		a.tell(progress.Checking, 0, d.PartitionSize())
		return "", writeWhole(ctx, file, tail)
	}
	base, err := l.baseFor(ctx, a, *d.Base, work)
	if err != nil {
		return "", err
	}
	defer base.Close()
	a.tell(progress.Checking, 0, d.PartitionSize())
	written, err := export.Rebuild(ctx, export.RebuildConfig{
		Base: base, BaseDigest: libdir.HexOrNone(d.Base.Digest), Tail: tail, TailSize: d.Tail.Size,
		TailDigest: libdir.HexOrNone(d.Tail.Digest),
		Out:        file, Offset: sif.PartitionOffset, Copy: sif.CopyBase,
	})
	if err != nil {
		return "", err
	}
	if written != d.PartitionSize() {
		return "", lied("the base is cut at byte %d", written-d.Tail.Size+manifest.SuperblockSize)
	}
	if base.Name() != l.dir.Base(d.Base.Digest) {
		newBase = base.Name()
	}
	return newBase, nil
}

// writeWhole lays out a tail that stands on no base.
func writeWhole(ctx context.Context, file *os.File, tail blob.Blob) error {
	size := tail.Size() - manifest.SuperblockSize
	if err := blob.Copy(ctx, io.NewOffsetWriter(file, sif.PartitionOffset+manifest.SuperblockSize), tail, 0, size); err != nil {
		return err
	}
	return blob.Copy(ctx, io.NewOffsetWriter(file, sif.PartitionOffset), tail, size, tail.Size())
}

// baseFor opens the base: the one that is here, or the one that came.
func (l *Library) baseFor(ctx context.Context, a Adoption, want manifest.BasePart, work string) (*os.File, error) {
	if l.HasBase(ctx, want.Part) {
		return os.Open(l.dir.Base(want.Digest))
	}
	b, err := a.Open(want.Digest)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	if b.Size() != want.Size {
		return nil, lied("its base has %d bytes, not %d", b.Size(), want.Size)
	}
	file, err := os.OpenFile(filepath.Join(work, "base.sqfs"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if err := l.takeBase(ctx, a, want, b, file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// takeBase copies a base that came, and makes sure that it is what the document says of it.
func (l *Library) takeBase(ctx context.Context, a Adoption, want manifest.BasePart, from blob.Blob, to *os.File) error {
	a.tell(progress.Checking, 0, want.Size)
	if err := blob.Copy(ctx, to, from, 0, want.Size); err != nil {
		return err
	}
	got, err := bases.Measure(ctx, to.Name())
	if err != nil {
		return err
	}
	if got != want {
		return lied("its base has the digest %s, is cut at %d, and keeps %s", got.Digest, got.Cut, got.Kept)
	}
	return nil
}

// soundImage compares an image with its document, and makes sure that its tree can be read.
func soundImage(ctx context.Context, file *os.File, d manifest.Document) error {
	_, err := imagefile.Check(ctx, file, d, io.Discard)
	if err == nil {
		_, err = squashfs.Parse(sectionOf(file, sif.PartitionOffset, d.PartitionSize()), d.PartitionSize())
	}
	if errs.Is(err, errs.Conflict) || errs.Is(err, errs.Invalid) { // and not one of the disk
		return lied("%v", err)
	}
	return err
}

// mayStartFrom refuses an environment whose manifest names an image of the engine by a stranger's word alone: with it,
// whoever brought it could start any image that the engine has. What the image is follows from a conversion here, or
// from a statement.
func (l *Library) mayStartFrom(digest string, base manifest.BasePart, image manifest.Base) error {
	known, err := l.converted(func(b baseRecord) bool { return b.Part.Digest == base.Digest && b.Of == image })
	if known || err != nil {
		return err
	}
	if vouched, err := l.Statements.Envelopes(digest); err != nil || len(vouched) > 0 {
		return err
	}
	return errs.New(
		errs.Forbidden, "nobody whom this site trusts says that the environment %s stands on the image %.80q", digest,
		image.Reference,
	).With("run jobs in it, or have the administrator add that image here or trust the site that froze it")
}
