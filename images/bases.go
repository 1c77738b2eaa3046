package images

import (
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"slipway/images/apptainer"
	"slipway/images/blob"
	"slipway/images/graft"
	"slipway/images/libdir"
	"slipway/images/manifest"
	"slipway/images/progress"
	"slipway/images/squashfs"
	"slipway/images/tree"
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

// readBase says what the file of a base holds: part itself where this process has compared it before and nothing has
// touched it since. What is copied from a base into environments is not looked at again while that is done. A file of
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
	got, _, err := hashBase(ctx, f, st.Size, manifest.SuperblockSize)
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
	l.log.Error("a base is damaged on disk, it is made anew", "digest", part.Digest, "found", got.Digest, "bytes", got.Size, "error", err)
	l.opened.dropDigest(part.Digest)
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
		l.log.Warn("a damaged base is replaced", "digest", part.Digest, "found", got.Digest, "bytes", got.Size, "wanted", part.Size, "error", err)
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := libdir.Publish(file, l.dir.Base(part.Digest)); err != nil {
		return err
	}
	l.opened.dropDigest(part.Digest)
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
	part, err := measureBase(ctx, file)
	if err != nil {
		return baseRecord{}, err
	}
	b := baseRecord{
		Key: key, Part: part, Of: src.Base, Losses: plusLosses(manifest.Losses{}, packed.Losses), Added: manifest.Texts(packed.Added), Made: time.Now().UTC(),
	}
	if err := l.publishBase(ctx, file, part.Part); err != nil {
		return baseRecord{}, l.dir.Explain(err, 0)
	}
	if err := libdir.WriteJSON(l.dir.Path("bases"), key+".json", b); err != nil {
		return baseRecord{}, l.dir.Explain(err, 0)
	}
	l.log.Info("converted an image into a base", "image", src.Base.Reference, "bytes", part.Size, "files", packed.Super.Inodes, "took", time.Since(start).Round(time.Millisecond))
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
		Strip: l.strip, Out: newEager(file, manifest.SuperblockSize),
		Progress: func(_ graft.Stage, files, bytes int64) { m.At(progress.Preparing, files, bytes, 0) },
	}
	made, err := l.packTree(ctx, src, src.Layers, work, cfg)
	if err != nil {
		return graft.Result{}, err
	}
	block := made.Super.Bytes()
	if _, err := file.WriteAt(block[:], 0); err != nil {
		return graft.Result{}, fmt.Errorf("write the superblock: %w", err)
	}
	return made, nil
}

// packTree packs all that layers show together, with what makes it run in Apptainer. work is an empty directory.
func (l *Library) packTree(
	ctx context.Context, src Source, layers []string, work string, cfg graft.Config,
) (graft.Result, error) {
	files, err := apptainer.Files(src.labelled())
	if err != nil {
		return graft.Result{}, err
	}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		mode := uint16(0o755)
		if filepath.Ext(path) == ".json" {
			mode = 0o644
		}
		cfg.Runtime = append(cfg.Runtime, graft.File{Path: path, Mode: mode, Content: []byte(files[path])})
	}
	point, empty := filepath.Join(work, "mount"), filepath.Join(work, "empty")
	if err := errors.Join(os.Mkdir(point, 0o700), os.Mkdir(empty, 0o700)); err != nil {
		return graft.Result{}, err
	}
	if len(layers) == 1 { // overlayfs takes no single one
		layers = append(slices.Clone(layers), empty)
	}
	root, err := tree.Merged(layers, point)
	if err != nil {
		return graft.Result{}, err
	}
	defer root.Close()
	cfg.Upper = tree.FDPath(int(root.Fd()))
	return graft.Graft(ctx, cfg)
}

func noBase(digest string) error {
	return errs.New(errs.Conflict, "the base %s that it stands on is not here any more", digest).
		With("freeze a session of the same image, which makes it anew, and try again")
}

// measureBase flushes the file of a base, and reads it for its digests.
func measureBase(ctx context.Context, path string) (manifest.BasePart, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return manifest.BasePart{}, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return manifest.BasePart{}, err
	}
	image, err := squashfs.Parse(f, st.Size())
	if err != nil {
		return manifest.BasePart{}, err
	}
	b := manifest.BasePart{Cut: image.Cut()}
	b.Part, b.Kept, err = hashBase(ctx, f, st.Size(), image.Cut())
	return b, errors.Join(err, f.Chmod(0o644), f.Sync())
}

// hashBase reads a base once for its digest and that of the part which environments keep.
func hashBase(ctx context.Context, f io.ReaderAt, size, cut int64) (all manifest.Part, kept string, err error) {
	whole, part := sha256.New(), sha256.New()
	for _, s := range []struct {
		from, to int64
		into     io.Writer
	}{{0, manifest.SuperblockSize, whole}, {manifest.SuperblockSize, cut, io.MultiWriter(whole, part)}, {cut, size, whole}} {
		if err := blob.Copy(ctx, s.into, f, s.from, s.to); err != nil {
			return manifest.Part{}, "", err
		}
	}
	return manifest.Part{Digest: blob.Named(whole.Sum(nil)), Size: size}, blob.Named(part.Sum(nil)), nil
}

// openedBase is a base that is being used.
type openedBase struct {
	file  *os.File
	image *squashfs.Image
	cache *baseCache
	users int // counted by cache
	used  time.Time
}

// release ends a use.
func (b *openedBase) release() { b.cache.release(b) }

// openBase returns a parsed base; release it.
func (l *Library) openBase(digest string) (*openedBase, error) {
	return l.opened.acquire(digest, l.dir.Base(digest))
}

const (
	// maxOpenBases bounds what parsed bases take: some 60 MB each.
	maxOpenBases = 2
	// idleBase is how long one is kept parsed that nobody uses; looked at every lookIdle.
	idleBase = 10 * time.Minute
	lookIdle = time.Minute
)

// baseCache keeps the bases parsed that were used last: parsing costs some tenths of a second.
type baseCache struct {
	mu    sync.Mutex
	order list.List // of digests, the most recently used first
	known map[string]*openedBase
}

// acquire parses under the lock: who wants the same base waits for the one that parses it.
func (c *baseCache) acquire(digest, path string) (*openedBase, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b := c.known[digest]; b != nil {
		b.users++
		b.used = time.Now()
		c.touch(digest)
		return b, nil
	}
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, noBase(digest)
	}
	if err != nil {
		return nil, fmt.Errorf("open the base: %w", err)
	}
	st, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	image, err := squashfs.Parse(f, st.Size())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read the base %s: %w", digest, err), f.Close())
	}
	b := &openedBase{file: f, image: image, cache: c, users: 2, used: time.Now()} // the caller and the cache
	if c.known == nil {
		c.known = map[string]*openedBase{}
	}
	c.known[digest] = b
	c.touch(digest)
	return b, nil
}

// touch makes digest the most recently used, and lets the one that is too much go.
func (c *baseCache) touch(digest string) {
	for e := c.order.Front(); e != nil; e = e.Next() {
		if e.Value == digest {
			c.order.MoveToFront(e)
			return
		}
	}
	c.order.PushFront(digest)
	if c.order.Len() > maxOpenBases {
		c.drop(c.order.Back())
	}
}

func (c *baseCache) drop(e *list.Element) {
	digest := c.order.Remove(e).(string)
	b := c.known[digest]
	delete(c.known, digest)
	b.leave()
}

// dropDigest makes the next use open the file again.
func (c *baseCache) dropDigest(digest string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for e := c.order.Front(); e != nil; e = e.Next() {
		if e.Value == digest {
			c.drop(e)
			return
		}
	}
}

func (c *baseCache) release(b *openedBase) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b.used = time.Now()
	b.leave()
}

// forgetIdle drops what nobody has used for some time, and gives the memory back to the host.
func (c *baseCache) forgetIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.order.Len()
	for e := c.order.Back(); e != nil; {
		newer := e.Prev()
		if b := c.known[e.Value.(string)]; b.users == 1 && time.Since(b.used) >= idleBase {
			c.drop(e)
		}
		e = newer
	}
	if c.order.Len() < before {
		debug.FreeOSMemory()
	}
}

// forget drops all that nobody uses.
func (c *baseCache) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.order.Len() > 0 {
		c.drop(c.order.Back())
	}
}

// leave is called with the cache's lock held. A file that was only read has nothing to lose when it is closed.
func (b *openedBase) leave() {
	if b.users--; b.users == 0 {
		_ = b.file.Close()
	}
}
