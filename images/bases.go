package images

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"slipway/images/apptainer"
	"slipway/images/bases"
	"slipway/images/graft"
	"slipway/images/imagefile"
	"slipway/images/libdir"
	"slipway/images/manifest"
	"slipway/images/progress"
	"slipway/internal/errs"
)

// baseFormat changes when equal images no longer give equal trees. A base that is there stays in use, whatever wrote
// its bytes.
const baseFormat = 2

// baseRecord is what the library knows of an image that it has converted.
type baseRecord struct {
	Key    string            `json:"key"`
	Part   manifest.BasePart `json:"part"`
	Of     manifest.Base     `json:"of"`
	Losses manifest.Losses   `json:"losses"`
	Added  []string          `json:"added"`
	Made   time.Time         `json:"made"`
}

// baseKey names the base of an image: what its bytes follow from.
func (l *Library) baseKey(src Source) (string, error) {
	if src.over != nil {
		return src.over.Key, nil
	}
	data, err := json.Marshal(struct {
		Format int
		Image  string
		Config apptainer.ImageConfig
		Rules  []string
	}{baseFormat, src.Base.Digest, src.Config, l.strip.Rules()})
	if err != nil {
		return "", fmt.Errorf("encode the base's key: %w", err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

// Prepare converts the image of a source into a base, so that no freeze has to wait for it. A second call finds it
// there.
func (l *Library) Prepare(ctx context.Context, src Source, report func(progress.Progress)) error {
	if err := src.validateBase(); err != nil {
		return err
	}
	_, err := l.prepareBase(ctx, src, report)
	return err
}

// prepareBase finds the base of a source's image, or makes it. All who want the same one wait for one conversion.
func (l *Library) prepareBase(ctx context.Context, src Source, report func(progress.Progress)) (baseRecord, error) {
	if src.over != nil {
		return *src.over, context.Cause(ctx)
	}
	key, err := l.baseKey(src)
	if err != nil {
		return baseRecord{}, err
	}
	if b, ok := l.knownBase(key); ok && l.baseIsSound(ctx, b.Part.Part) {
		return b, context.Cause(ctx)
	}
	b, err := l.conversions.Do(ctx, key, report, func(ctx context.Context, m *progress.Meter) (baseRecord, error) {
		if b, ok := l.knownBase(key); ok && l.baseIsSound(ctx, b.Part.Part) {
			return b, nil
		}
		return l.convert(ctx, key, src, m)
	})
	if err != nil {
		return baseRecord{}, fmt.Errorf("convert the image %s: %w", src.Base.Reference, err)
	}
	return b, nil
}

// knownBase finds a base whose file is there, and stays.
func (l *Library) knownBase(key string) (baseRecord, bool) {
	var b baseRecord
	if err := libdir.ReadJSON(l.dir.Path("bases", key+".json"), &b); err != nil || b.Key != key {
		return baseRecord{}, false
	}
	l.keepFor(b.Part.Digest, keepBase)
	st, err := os.Stat(l.dir.Base(b.Part.Digest))
	return b, err == nil && st.Size() == b.Part.Size
}

// readBase says what the file of a base holds: part itself where it was compared before and nothing has touched it
// since. What is copied from a base into environments is not looked at again while that is done. A file of
// another size is not read.
func (l *Library) readBase(ctx context.Context, part manifest.Part) (manifest.Part, error) {
	f, err := os.Open(l.dir.Base(part.Digest))
	if err != nil {
		return manifest.Part{}, err
	}
	defer f.Close()
	st, err := libdir.StampOf(f)
	switch {
	case err != nil:
		return manifest.Part{}, err
	case st.Size != part.Size:
		return manifest.Part{Size: st.Size}, nil
	case l.soundBases.Is(part.Digest, st):
		return part, nil
	}
	got, _, err := bases.Hash(ctx, f, st.Size, manifest.SuperblockSize)
	if err == nil && got == part {
		l.soundBases.Set(part.Digest, st)
	}
	return got, err
}

// baseIsSound compares a base with its digest. One that is damaged is taken away, and made anew by the next freeze.
func (l *Library) baseIsSound(ctx context.Context, part manifest.Part) bool {
	got, err := l.readBase(ctx, part)
	switch {
	case ctx.Err() != nil:
		return true // the caller looks at ctx
	case err == nil && got == part:
		return true
	case errors.Is(err, os.ErrNotExist):
		return false
	}
	l.log.Error(
		"a base is damaged on disk, it is made anew", "digest", part.Digest, "found", got.Digest, "bytes", got.Size,
		"error", err,
	)
	l.opened.DropDigest(part.Digest)
	if err := os.Remove(l.dir.Base(part.Digest)); err != nil {
		l.log.Error("a damaged base cannot be removed", "digest", part.Digest, "error", err)
	}
	return false
}

// publishBase gives the file of a base that was just measured its place. One that is there stays only when it has the
// same bytes; any other is replaced in one step, and whoever has it parsed opens the new one next time.
func (l *Library) publishBase(ctx context.Context, file string, part manifest.Part) error {
	got, err := l.readBase(ctx, part)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil && got == part:
		return nil
	case !errors.Is(err, os.ErrNotExist):
		l.log.Warn(
			"a damaged base is replaced", "digest", part.Digest, "found", got.Digest, "bytes", got.Size, "wanted",
			part.Size, "error", err,
		)
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := libdir.Publish(file, l.dir.Base(part.Digest)); err != nil {
		return err
	}
	l.opened.DropDigest(part.Digest)
	st, err := libdir.StampOf(f) // renaming has changed it
	if err == nil {
		l.soundBases.Set(part.Digest, st)
	}
	return err
}

func (l *Library) convert(ctx context.Context, key string, src Source, m *progress.Meter) (baseRecord, error) {
	start := time.Now()
	work, err := os.MkdirTemp(l.dir.Path("work"), "base-")
	if err != nil {
		return baseRecord{}, l.dir.Explain(err, 0)
	}
	defer l.discard(work)
	file := work + "/base.sqfs"
	packed, err := l.packBase(ctx, src, work, file, m)
	if err != nil {
		return baseRecord{}, l.dir.Explain(err, 0)
	}
	part, err := bases.Measure(ctx, file)
	if err != nil {
		return baseRecord{}, err
	}
	b := baseRecord{
		Key: key, Part: part, Of: src.Base, Losses: plusLosses(manifest.Losses{}, packed.Losses),
		Added: manifest.Texts(packed.Added), Made: time.Now().UTC(),
	}
	if err := l.publishBase(ctx, file, part.Part); err != nil {
		return baseRecord{}, l.dir.Explain(err, 0)
	}
	if err := libdir.WriteJSON(l.dir.Path("bases"), key+".json", b); err != nil {
		return baseRecord{}, l.dir.Explain(err, 0)
	}
	l.log.Info(
		"converted an image into a base", "image", src.Base.Reference, "bytes", part.Size, "files", packed.Super.Inodes,
		"took", time.Since(start).Round(time.Millisecond),
	)
	return b, nil
}

// packBase writes the tree of an image into a new file.
func (l *Library) packBase(
	ctx context.Context, src Source, work, path string, m *progress.Meter,
) (graft.Result, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return graft.Result{}, err
	}
	defer file.Close()
	cfg := graft.Config{
		Strip: l.strip, Out: imagefile.NewEager(file, manifest.SuperblockSize),
		Progress: func(_ graft.Stage, files, bytes int64) { m.At(progress.Preparing, files, bytes, 0) },
	}
	made, err := bases.Pack(ctx, src.labelled(), src.Layers, work, cfg)
	if err != nil {
		return graft.Result{}, err
	}
	block := made.Super.Bytes()
	if _, err := file.WriteAt(block[:], 0); err != nil {
		return graft.Result{}, fmt.Errorf("write the superblock: %w", err)
	}
	return made, nil
}

func noBase(digest string) error {
	return errs.New(errs.Conflict, "the base %s that it stands on is not here any more", digest).
		With("freeze a session of the same image, which makes it anew, and try again")
}

// openBase returns a parsed base; release it.
func (l *Library) openBase(digest string) (*bases.Base, error) {
	b, err := l.opened.Acquire(digest, l.dir.Base(digest))
	if errors.Is(err, os.ErrNotExist) {
		return nil, noBase(digest)
	}
	return b, err
}
