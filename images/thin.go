package images

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"slipway/images/blob"
	"slipway/images/graft"
	"slipway/images/libdir"
	"slipway/images/manifest"
	"slipway/images/sif"
)

// A freeze leaves a thin image: a SIF whose file has nothing but holes where the partition has the base's bytes and the
// tail's. The tail lies in packs, which the environments of a session share by hard links: the last link that goes
// takes the bytes along, so nothing has to count who needs them. Before a run the file is filled, and some time after
// it is made thin again.
//
//	tails/<hex>/map.json  where the tail lies, by parts of packs, in order
//	tails/<hex>/<pack>    what freezes have stored
//	tails/<hex>/thin      the image is thin; without it the file is whole

// tailMap is a tail by where it lies.
type tailMap struct {
	Extents []graft.Extent `json:"extents"`
}

const (
	tailMapName = "map.json"
	thinName    = "thin"
	packSuffix  = ".pack"
	// foldAfter is how long a filled image stays whole when nothing uses it.
	foldAfter = time.Hour
)

// isThin says whether the image of a digest has to be filled before a run.
func (l *Library) isThin(digest string) bool {
	_, err := os.Lstat(filepath.Join(l.dir.Tail(digest), thinName))
	return err == nil
}

// section is a part of an image that lies in another file.
type section struct {
	from, to int64 // in the image
	file     *os.File
	at       int64 // in the file
}

// wholeImage reads an image as it is when it is filled.
type wholeImage struct {
	*os.File
	sections []section // in order
	opened   []*os.File
}

// thin says whether the file has holes.
func (w *wholeImage) thin() bool { return len(w.sections) > 0 }

// Close closes all but the image's own file.
func (w *wholeImage) Close() error {
	var all error
	for _, f := range w.opened {
		all = errors.Join(all, f.Close())
	}
	return all
}

// ReadAt reads from wherever the bytes are.
func (w *wholeImage) ReadAt(b []byte, at int64) (n int, err error) {
	for n < len(b) {
		i, _ := slices.BinarySearchFunc(w.sections, at, func(s section, at int64) int { return cmp.Compare(s.to, at+1) })
		from, start, end := w.File, at, at+int64(len(b)-n)
		if i < len(w.sections) {
			if s := w.sections[i]; at >= s.from {
				from, start, end = s.file, s.at+at-s.from, min(end, s.to)
			} else {
				end = min(end, s.from)
			}
		}
		m, err := from.ReadAt(b[n:n+int(end-at)], start)
		n, at = n+m, at+int64(m)
		if at < end {
			return n, cmp.Or(err, io.ErrUnexpectedEOF)
		}
	}
	return n, nil
}

// partsOf says where the parts of a thin image lie. tails is the directory of its packs.
func partsOf(f, base *os.File, cut int64, tails string, extents []graft.Extent) (*wholeImage, error) {
	w := &wholeImage{File: f}
	if base != nil {
		w.sections = append(w.sections, section{sif.PartitionOffset + manifest.SuperblockSize, sif.PartitionOffset + cut, base, manifest.SuperblockSize})
	}
	packs, at := map[string]*os.File{}, sif.PartitionOffset+cut
	for _, e := range extents {
		pack := packs[e.Pack]
		if pack == nil {
			var err error
			if pack, err = os.Open(filepath.Join(tails, filepath.Base(e.Pack))); err != nil {
				return nil, errors.Join(err, w.Close())
			}
			packs[e.Pack], w.opened = pack, append(w.opened, pack)
		}
		w.sections = append(w.sections, section{at, at + e.Length, pack, e.Offset})
		at += e.Length
	}
	return w, nil
}

// whole returns a reader of the image in f as it is when it is filled. It is errReplaced when f is not the image's file
// any more.
func (l *Library) whole(ctx context.Context, f *os.File, digest string, d manifest.Document) (*wholeImage, error) {
	if l.isThin(digest) && d.Base != nil {
		return l.fromParts(ctx, f, digest, d)
	}
	st, err := f.Stat() // it may have been thin when it was opened
	if err == nil {
		err = l.still(digest, st)
	}
	return &wholeImage{File: f}, err
}

// fromParts returns a reader of the image in f that has the base and the tail from where they lie.
func (l *Library) fromParts(ctx context.Context, f *os.File, digest string, d manifest.Document) (*wholeImage, error) {
	if !l.baseIsSound(ctx, d.Base.Part) {
		if err := l.bringBase(ctx, *d.Base); err != nil {
			return nil, err
		}
	}
	var tail tailMap
	if err := libdir.ReadJSON(filepath.Join(l.dir.Tail(digest), tailMapName), &tail); err != nil {
		return nil, damaged("it is not known where its own part lies: %v", err)
	}
	base, err := os.Open(l.dir.Base(d.Base.Digest))
	if err != nil {
		return nil, err
	}
	w, err := partsOf(f, base, d.CutAt(), l.dir.Tail(digest), tail.Extents)
	if err != nil {
		return nil, errors.Join(damaged("%v", err), base.Close())
	}
	w.opened = append(w.opened, base)
	return w, nil
}

// ownWhole is a wholeImage that closes the image's file too.
type ownWhole struct {
	*wholeImage
	size int64 // of the file
}

// Close closes all.
func (o ownWhole) Close() error { return errors.Join(o.wholeImage.Close(), o.File.Close()) }

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
	return l.withParts(ctx, digest, d, func(old *os.File, w *wholeImage) error {
		return l.remakeImage(ctx, old, d, func(file *os.File) error { return w.fill(ctx, file, d) }, func(file *os.File, before os.FileInfo) error {
			return l.exchange(file.Name(), digest, before, false)
		})
	})
}

// withParts calls do with an image's file, and with the image as its parts have it.
func (l *Library) withParts(
	ctx context.Context, digest string, d manifest.Document, do func(old *os.File, w *wholeImage) error,
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

// fill writes the parts that a thin image has elsewhere.
func (w *wholeImage) fill(ctx context.Context, file *os.File, d manifest.Document) error {
	base := w.sections[0]
	if _, err := sif.CopyBase(ctx, file, sif.PartitionOffset, base.file, d.CutAt(), nil); err != nil {
		return err
	}
	for _, s := range w.sections[1:] {
		if err := blob.Copy(ctx, io.NewOffsetWriter(file, s.from), s.file, s.at, s.at+s.to-s.from); err != nil {
			return err
		}
	}
	return nil
}

// remakeImage writes the image in old anew: what fill puts there, and what a thin one has. done is given the new file.
func (l *Library) remakeImage(
	ctx context.Context, old *os.File, d manifest.Document, fill func(*os.File) error, done func(*os.File, os.FileInfo) error,
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
	mark := filepath.Join(l.dir.Tail(digest), thinName)
	if thin {
		if err := libdir.WriteFile(l.dir.Tail(digest), thinName, nil); err != nil {
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
	failed := l.forgetGone()
	for _, dir := range dirs {
		digest := blob.Prefix + filepath.Base(dir)
		st, err := os.Stat(l.dir.Image(digest))
		if err != nil || used[digest] || l.isThin(digest) || asked.Sub(st.ModTime()) < foldAfter || asked.Before(l.pins.end(digest, asked)) || asked.Before(l.wanted.end(digest, asked)) {
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
	return l.withParts(ctx, digest, d, func(old *os.File, w *wholeImage) error {
		if _, err := checkImage(ctx, w, d, io.Discard); err != nil {
			return err
		}
		return l.remakeImage(ctx, old, d, func(*os.File) error { return nil }, func(file *os.File, before os.FileInfo) error {
			_, err := l.wanted.unless(digest, asked, func() error {
				_, err := l.pins.unless(digest, asked, func() error { return l.exchange(file.Name(), digest, before, true) })
				return err
			})
			return err
		})
	})
}

// memoryPath names what the last freeze of a source has left to the next: the environment whose packs it speaks of, and
// the graft's memory.
func (l *Library) memoryPath(req Request) string {
	name := libdir.Escape(req.Key) + ".memory"
	if req.Carried {
		name = libdir.Escape(req.Key) + ".carried.memory"
	}
	return l.dir.Path("sources", libdir.Escape(req.Owner), name)
}

// recall returns the memory of the source's last freeze, with its packs in dir; nil when there is none that holds.
func (l *Library) recall(req Request, dir string) *graft.Memory {
	data, err := os.ReadFile(l.memoryPath(req))
	hexPart, rest, found := strings.Cut(string(data), "\n")
	digest := blob.Prefix + hexPart
	if _, whole := blob.Hex(digest); err != nil || !found || !whole || l.isSpoilt(digest) {
		return nil
	}
	m, err := graft.ParseMemory([]byte(rest))
	if err != nil {
		return nil
	}
	for _, name := range m.Packs {
		if err := os.Link(filepath.Join(l.dir.Path("tails", hexPart), filepath.Base(name)), filepath.Join(dir, filepath.Base(name))); err != nil {
			return nil // it went with the environment
		}
	}
	return m
}

// forgetGone removes memories of environments that have gone.
func (l *Library) forgetGone() error {
	files, err := filepath.Glob(l.dir.Path("sources", "*", "*.memory"))
	if err != nil {
		return err
	}
	for _, path := range files {
		name := make([]byte, sha256.Size*2)
		f, err := os.Open(path)
		if err != nil {
			continue // another freeze has put a new one in its place
		}
		_, err = io.ReadFull(f, name)
		_ = f.Close() // it was only read
		if _, gone := os.Lstat(l.dir.Path("tails", string(name))); err == nil && !errors.Is(gone, fs.ErrNotExist) {
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
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
	if err := l.saveMemory(req, digest, d.thin.remember(looked)); err != nil {
		l.log.Warn("what a freeze has stored is not remembered: the next one of its session reads all again", "session", req.Key, "error", err)
	}
}

// saveMemory writes a memory. After a start of the host it does not hold, so nothing is flushed.
func (l *Library) saveMemory(req Request, digest string, m *graft.Memory) error {
	path := l.memoryPath(req)
	f, err := os.CreateTemp(filepath.Dir(path), libdir.TempPrefix+"*")
	if err != nil {
		return err
	}
	_, err = f.Write(append([]byte(libdir.HexOrNone(digest)+"\n"), m.Encode()...))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
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
	name := hex.EncodeToString(id) + packSuffix
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return newPack{}, err
	}
	return newPack{Writer: l.within(ctx, req, newEager(f, 0)), File: f, name: name}, nil
}

// opener opens the packs in a directory, once each, until they are closed.
func opener(dir string) (open func(name string) (io.ReaderAt, int64, error), close func()) {
	var files []*os.File
	open = func(name string) (io.ReaderAt, int64, error) {
		f, err := os.Open(filepath.Join(dir, filepath.Base(name)))
		if err != nil {
			return nil, 0, err
		}
		files = append(files, f)
		st, err := f.Stat()
		if err != nil {
			return nil, 0, err
		}
		return f, st.Size(), nil
	}
	return open, func() {
		for _, f := range files {
			_ = f.Close() // it was only read
		}
	}
}

// thinTail is the tail of an image in the making.
type thinTail struct {
	dir      string // with its packs, and those of the earlier freeze
	extents  []graft.Extent
	remember func(except []string) *graft.Memory
	placed   bool // an environment has it
}

// settleDown leaves nothing in the directory but what the tail needs.
func (t *thinTail) settleDown() error {
	needed := map[string]bool{}
	for _, e := range t.extents {
		needed[e.Pack] = true
	}
	list, err := os.ReadDir(t.dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		if !needed[e.Name()] {
			if err := os.Remove(filepath.Join(t.dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := libdir.WriteJSON(t.dir, tailMapName, tailMap{t.extents}); err != nil {
		return err
	}
	return libdir.WriteFile(t.dir, thinName, nil)
}

// placeTail gives the tail of an image its place, before the image has its own. A whole image (nil) has none.
func (l *Library) placeTail(t *thinTail, digest string) error {
	if err := os.RemoveAll(l.dir.Tail(digest)); err != nil || t == nil {
		return err
	}
	if err := t.settleDown(); err != nil {
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
