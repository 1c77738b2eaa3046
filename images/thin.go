package images

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"slipway/images/blob"
	"slipway/images/graft"
	"slipway/images/graftmemory"
	"slipway/images/imagefile"
	"slipway/images/libdir"
	"slipway/images/manifest"
	"slipway/images/sif"
)

// A freeze leaves a thin image: see package imagefile. Before a run the file is filled, and some time after it is made
// thin again.

// foldAfter is how long a filled image stays whole when nothing uses it.
const foldAfter = time.Hour

// isThin says whether the image of a digest has to be filled before a run.
func (l *Library) isThin(digest string) bool { return imagefile.IsThin(l.dir.Tail(digest)) }

// whole returns a reader of the image in f as it is when it is filled. It is errReplaced when f is not the image's file
// any more.
func (l *Library) whole(ctx context.Context, f *os.File, digest string, d manifest.Document) (*imagefile.Whole, error) {
	if l.isThin(digest) && d.Base != nil {
		return l.fromParts(ctx, f, digest, d)
	}
	st, err := f.Stat() // it may have been thin when it was opened
	if err == nil {
		err = l.still(digest, st)
	}
	return &imagefile.Whole{File: f}, err
}

// fromParts returns a reader of the image in f that has the base and the tail from where they lie.
func (l *Library) fromParts(
	ctx context.Context, f *os.File, digest string, d manifest.Document,
) (*imagefile.Whole, error) {
	if !l.baseIsSound(ctx, d.Base.Part) {
		if err := l.bringBase(ctx, *d.Base); err != nil {
			return nil, err
		}
	}
	extents, err := imagefile.ReadTail(l.dir.Tail(digest))
	if err != nil {
		return nil, imagefile.Damaged("it is not known where its own part lies: %v", err)
	}
	base, err := os.Open(l.dir.Base(d.Base.Digest))
	if err != nil {
		return nil, err
	}
	w, err := imagefile.Parts(f, base, d.CutAt(), l.dir.Tail(digest), extents)
	if err != nil {
		return nil, errors.Join(imagefile.Damaged("%v", err), base.Close())
	}
	w.ClosesToo(base)
	return w, nil
}

// ownWhole is a wholeImage that closes the image's file too.
type ownWhole struct {
	*imagefile.Whole
	size int64 // of the file
}

// Close closes all.
func (o ownWhole) Close() error { return errors.Join(o.Whole.Close(), o.File.Close()) }

// openWhole opens an image as it is when it is filled.
func (l *Library) openWhole(ctx context.Context, digest string, d manifest.Document) (ownWhole, error) {
	for {
		f, err := l.openBlob(digest)
		if err != nil {
			return ownWhole{}, err
		}
		st, err := f.Stat()
		if err != nil {
			return ownWhole{}, errors.Join(err, f.Close())
		}
		w, err := l.whole(ctx, f, digest, d)
		if err == nil {
			return ownWhole{w, st.Size()}, nil
		}
		if err = errors.Join(err, f.Close()); !errors.Is(err, errReplaced) {
			return ownWhole{}, err
		}
	}
}

// fillImage makes a thin image whole, in a new file that takes its place. No signature may come meanwhile.
func (l *Library) fillImage(ctx context.Context, digest string, d manifest.Document) error {
	return l.withParts(ctx, digest, d, func(old *os.File, w *imagefile.Whole) error {
		return l.remakeImage(ctx, old, d, func(file *os.File) error { return w.Fill(ctx, file, d) }, func(file *os.File, before os.FileInfo) error {
			return l.exchange(file.Name(), digest, before, false)
		})
	})
}

// withParts calls do with an image's file, and with the image as its parts have it.
func (l *Library) withParts(
	ctx context.Context, digest string, d manifest.Document, do func(old *os.File, w *imagefile.Whole) error,
) error {
	old, err := os.Open(l.dir.Image(digest))
	if err != nil {
		return err
	}
	defer old.Close()
	w, err := l.fromParts(ctx, old, digest, d)
	if err != nil {
		return err
	}
	defer w.Close()
	return do(old, w)
}

// remakeImage writes the image in old anew: what fill puts there, and what a thin one has. done is given the new file.
func (l *Library) remakeImage(
	ctx context.Context, old *os.File, d manifest.Document, fill func(*os.File) error,
	done func(*os.File, os.FileInfo) error,
) error {
	st, err := old.Stat()
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp(l.dir.Path("work"), "fill-")
	if err != nil {
		return l.dir.Explain(err, 0)
	}
	defer l.discard(work)
	file, err := os.OpenFile(filepath.Join(work, "image.sif"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return l.dir.Explain(err, 0)
	}
	defer file.Close()
	if err = errors.Join(file.Chmod(0o644), file.Truncate(st.Size())); err == nil {
		err = fill(file)
	}
	for _, s := range [][2]int64{{0, sif.PartitionOffset + manifest.SuperblockSize}, {sif.PartitionOffset + d.PartitionSize(), st.Size()}} {
		if err == nil {
			err = blob.Copy(ctx, io.NewOffsetWriter(file, s[0]), old, s[0], s[1])
		}
	}
	if err == nil {
		err = file.Sync()
	}
	if err != nil {
		return l.dir.Explain(err, st.Size())
	}
	return done(file, st)
}

// exchange puts a remade image in the place of the one that it was made of. It counts as thin until it surely is not.
func (l *Library) exchange(file, digest string, before os.FileInfo, thin bool) error {
	l.placing.Lock()
	defer l.placing.Unlock()
	if err := l.still(digest, before); err != nil {
		return err
	}
	mark := filepath.Join(l.dir.Tail(digest), imagefile.ThinMark)
	if thin {
		if err := libdir.WriteFile(l.dir.Tail(digest), imagefile.ThinMark, nil); err != nil {
			return err
		}
	}
	if err := os.Rename(file, l.dir.Image(digest)); err != nil {
		return err
	}
	if err := libdir.SyncDir(l.dir.Path("blobs")); err != nil || thin {
		return err
	}
	if err := os.Remove(mark); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// fold makes images thin again that were filled and that nothing has used since.
func (l *Library) fold(ctx context.Context, used map[string]bool) error {
	dirs, err := filepath.Glob(l.dir.Path("tails", "*"))
	if err != nil {
		return err
	}
	asked := l.cfg.Now()
	failed := graftmemory.ForgetGone(l.dir)
	for _, dir := range dirs {
		digest := blob.Prefix + filepath.Base(dir)
		st, err := os.Stat(l.dir.Image(digest))
		if err != nil || used[digest] || l.isThin(digest) || asked.Sub(st.ModTime()) < foldAfter ||
			asked.Before(l.pins.End(digest, asked)) || asked.Before(l.wanted.End(digest, asked)) {
			continue
		}
		if err := l.foldImage(ctx, digest, asked); err != nil && !errors.Is(err, errReplaced) {
			failed = errors.Join(failed, fmt.Errorf("make the image %s thin: %w", digest, err))
		}
	}
	return failed
}

// foldImage makes an image thin, unless its parts are damaged: then the image is all that is left of them.
func (l *Library) foldImage(ctx context.Context, digest string, asked time.Time) error {
	l.signing.RLock()
	defer l.signing.RUnlock()
	d, err := l.document(digest)
	if err != nil || d.Base == nil || l.isSpoilt(digest) {
		return err
	}
	return l.withParts(ctx, digest, d, func(old *os.File, w *imagefile.Whole) error {
		if _, err := imagefile.Check(ctx, w, d, io.Discard); err != nil {
			return err
		}
		return l.remakeImage(ctx, old, d, func(*os.File) error { return nil }, func(file *os.File, before os.FileInfo) error {
			_, err := l.wanted.Unless(digest, asked, func() error {
				_, err := l.pins.Unless(
					digest, asked, func() error { return l.exchange(file.Name(), digest, before, true) },
				)
				return err
			})
			return err
		})
	})
}

// memoryPath names what the last freeze of a source has left to the next.
func (l *Library) memoryPath(req Request) string {
	return graftmemory.Path(l.dir, req.Owner, req.Key, req.Carried)
}

// recall returns the memory of the source's last freeze, with its packs in dir; nil when there is none that holds.
func (l *Library) recall(req Request, dir string) *graft.Memory {
	return graftmemory.Recall(l.dir, l.memoryPath(req), dir, func(digest string) bool { return !l.isSpoilt(digest) })
}

// remember keeps what a freeze leaves to the source's next one, which can do without it.
func (l *Library) remember(req Request, digest string, d *draft) {
	if d.thin == nil || !d.thin.placed {
		return
	}
	var looked []string // again next time: they are here by the owner's word
	for _, found := range d.found.Allowed {
		looked = append(looked, found.Path)
	}
	if err := graftmemory.Save(l.memoryPath(req), digest, d.thin.remember(looked)); err != nil {
		l.log.Warn(
			"what a freeze has stored is not remembered: the next one of its session reads all again", "session",
			req.Key, "error", err,
		)
	}
}

// newPack begins a pack.
type newPack struct {
	io.Writer
	*os.File
	name string
}

// Write passes on to where room is counted.
func (p newPack) Write(b []byte) (int, error) { return p.Writer.Write(b) }

func (l *Library) newPack(ctx context.Context, req Request, dir string) (newPack, error) {
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return newPack{}, err
	}
	name := hex.EncodeToString(id) + imagefile.PackSuffix
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return newPack{}, err
	}
	return newPack{Writer: l.within(ctx, req, imagefile.NewEager(f, 0)), File: f, name: name}, nil
}

// thinTail is the tail of an image in the making.
type thinTail struct {
	dir      string // with its packs, and those of the earlier freeze
	extents  []graft.Extent
	remember func(except []string) *graft.Memory
	placed   bool // an environment has it
}

// placeTail gives the tail of an image its place, before the image has its own. A whole image (nil) has none.
func (l *Library) placeTail(t *thinTail, digest string) error {
	if err := os.RemoveAll(l.dir.Tail(digest)); err != nil || t == nil {
		return err
	}
	if err := imagefile.WriteTail(t.dir, t.extents); err != nil {
		return err
	}
	t.placed = true
	if err := os.Rename(t.dir, l.dir.Tail(digest)); err != nil {
		return err
	}
	return libdir.SyncDir(l.dir.Path("tails"))
}

// dropTails removes tails that no image is left of: of freezes and removals that were interrupted.
func (l *Library) dropTails() error {
	dirs, err := filepath.Glob(l.dir.Path("tails", "*"))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if _, err := os.Lstat(l.dir.Image(blob.Prefix + filepath.Base(dir))); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		l.log.Info("removing what an unfinished freeze left", "path", dir)
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}
