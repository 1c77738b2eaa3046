package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"slipway/internal/clock"
)

const (
	mostCached = int64(20) << 30     // bytes of one user's images, where the plan names no number
	unused     = 14 * 24 * time.Hour // after which an image leaves
	keepFree   = 20                  // one part in so many of the file system stays free
	lockEvery  = 200 * time.Millisecond

	imageExt = ".sif"
	lockExt  = ".lock" // held by who fetches
	partExt  = ".part" // what has come so far, kept from run to run
)

// cache is where a node keeps one user's images, for her next runs there: a directory that nobody else can read or
// write. Several runs of a node fetch an image once. A run holds the lock of its image while it uses it, and the others
// take no image from it to make room.
//
// What the administrator has put into the directory above, as <64 digits of the digest>.sif, is for everybody.
type cache struct {
	dir    string
	shared string // the directory above; empty: it is not to be trusted, or there is none
	most   int64
	log    *slog.Logger
}

// openCache makes a user's part of the directory that a plan names; next to it, where there is no such directory, or it
// is another's.
func openCache(dir string, most int64, log *slog.Logger) (*cache, error) {
	c := &cache{most: most, log: log}
	if c.most <= 0 {
		c.most = mostCached
	}
	me := strconv.Itoa(os.Getuid())
	shared, err := trusted(dir)
	if err == nil {
		c.shared = shared
		if c.dir, err = ownDir(shared, me); err == nil {
			return c, nil
		}
	}
	beside, err2 := ownDir(filepath.Dir(dir), filepath.Base(dir)+"-"+me)
	if err2 != nil {
		return nil, errors.Join(err, err2)
	}
	c.dir = beside
	return c, nil
}

// ownDir makes a directory of this user's alone, or finds that it is there.
func ownDir(above, name string) (string, error) {
	above, err := trusted(above)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(above, name)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	st, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	if !st.IsDir() || ownerOf(st) != os.Getuid() || st.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("%s is no directory of this user's alone", dir)
	}
	return dir, nil
}

// provided returns the image that the administrator has put there; empty: there is none.
func (c *cache) provided(digits string) string {
	if c.shared == "" {
		return ""
	}
	path := filepath.Join(c.shared, digits+imageExt)
	f, err := openOwn(path, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	if err := checkOpen(f); err != nil {
		c.log.Warn("an image that the administrator has put there is none", "error", err)
		return ""
	}
	return path
}

// get returns the image of that name, which fetch brings if it is not there. release lets go of it.
func (c *cache) get(
	ctx context.Context, digits string, size int64, fetch func(context.Context, *os.File) error,
) (path string, release func(), err error) {
	if path := c.provided(digits); path != "" {
		return path, func() {}, nil
	}
	c.tidy()
	for range 10 { // others make room, and take it again
		if path, release, ok := c.use(digits); ok {
			return path, release, nil
		}
		if err := c.bring(ctx, digits, size, fetch); err != nil {
			return "", nil, err
		}
	}
	return "", nil, fmt.Errorf("what was fetched into %s does not stay there", c.dir)
}

// use takes hold of an image that is there and whole. One that is not is removed.
func (c *cache) use(digits string) (path string, release func(), ok bool) {
	path = filepath.Join(c.dir, digits+imageExt)
	f, err := openOwn(path, os.Getuid())
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil, false
	}
	if err != nil {
		c.log.Warn("what is in the node's cache is no image of this user's", "error", errors.Join(err, os.Remove(path)))
		return "", nil, false
	}
	if unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) == nil && same(f, path) {
		err := checkOpen(f)
		if err == nil {
			now := time.Now()
			_ = os.Chtimes(path, now, now) // who was used last goes last
			return path, func() { _ = f.Close() }, true
		}
		c.log.Warn("an image in the node's cache is damaged: fetching it anew", "error", err)
		_ = os.Remove(path)
	}
	_ = f.Close()
	return "", nil, false
}

// same reports whether a path still leads to an open file.
func same(f *os.File, path string) bool {
	is, err := f.Stat()
	at, err2 := os.Lstat(path)
	return err == nil && err2 == nil && os.SameFile(is, at)
}

// bring fetches an image, unless another run has done so meanwhile.
func (c *cache) bring(
	ctx context.Context, digits string, size int64, fetch func(context.Context, *os.File) error,
) error {
	lock, err := c.lock(ctx, digits)
	if err != nil {
		return err
	}
	defer lock.Close()
	path, part := filepath.Join(c.dir, digits+imageExt), filepath.Join(c.dir, digits+partExt)
	if checkImage(path) == nil {
		return nil
	}
	f, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := c.makeRoom(digits, size, f); err != nil {
		return err
	}
	if err := errors.Join(fetch(ctx, f), f.Sync()); err != nil {
		return err
	}
	if err := checkImage(part); err != nil {
		return errors.Join(err, os.Remove(part))
	}
	return os.Rename(part, path)
}

// lock waits for the right to fetch an image.
func (c *cache) lock(ctx context.Context, digits string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(c.dir, digits+lockExt), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	for told := false; ; told = true {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", f.Name(), err), f.Close())
		}
		if !told {
			c.log.Info("another run of this node fetches the image")
		}
		if !clock.Sleep(ctx, lockEvery) {
			return nil, errors.Join(ctx.Err(), f.Close())
		}
	}
}

// kept is a file of the cache.
type kept struct {
	path string
	used time.Time
	size int64
}

// tidy removes what nobody has used for long.
func (c *cache) tidy() {
	list, _ := c.list("")
	for _, k := range list {
		if time.Since(k.used) > unused {
			c.drop(k)
		}
	}
}

// makeRoom removes what nobody uses, the longest unused first, until size bytes more fit.
func (c *cache) makeRoom(digits string, size int64, part *os.File) error {
	list, total := c.list(digits)
	missing := max(size-occupied(part), 0)
	for {
		free, least, err := room(c.dir)
		if err != nil {
			return err
		}
		if total+size <= c.most && free-missing >= least {
			return nil
		}
		if len(list) == 0 {
			return fmt.Errorf("%s has no room for an image of %d MB: %w", c.dir, size/1e6, unix.ENOSPC)
		}
		if c.drop(list[0]) {
			total -= list[0].size
		}
		list = list[1:]
	}
}

func occupied(f *os.File) int64 {
	n, err := size(f)
	if err != nil {
		return 0
	}
	return n
}

// list returns the images and the parts of images but those of one name, the longest unused first, and how many bytes
// they have.
func (c *cache) list(except string) (list []kept, total int64) {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return nil, 0
	}
	for _, e := range entries {
		digits, ext, _ := strings.Cut(e.Name(), ".")
		st, err := e.Info()
		if err != nil || digits == except || "."+ext != imageExt && "."+ext != partExt {
			continue
		}
		list = append(list, kept{path: filepath.Join(c.dir, e.Name()), used: st.ModTime(), size: st.Size()})
		total += st.Size()
	}
	slices.SortFunc(list, func(a, b kept) int { return a.used.Compare(b.used) })
	return list, total
}

// drop removes a file of the cache that nobody uses: no run holds an image, and nobody fetches what there is a part of.
func (c *cache) drop(k kept) bool {
	holder := k.path
	if base, ok := strings.CutSuffix(k.path, partExt); ok {
		holder = base + lockExt
	}
	f, err := os.OpenFile(holder, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return false
	}
	c.log.Info("an image leaves the node's cache", "path", k.path, "used", k.used)
	return os.Remove(k.path) == nil
}

// room returns the free bytes of a file system, and how many are to stay so.
func room(dir string) (free, least int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, err
	}
	return int64(st.Bavail) * st.Bsize, int64(st.Blocks) * st.Bsize / keepFree, nil
}
