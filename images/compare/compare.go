package compare

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"slipway/images/squashfs"
	"slipway/images/tree"
	"slipway/internal/errs"
)

const (
	// runtimeDir is the freeze's own.
	runtimeDir = ".singularity.d"
	// workers compare contents while the trees are walked.
	workers = 2
	// maxShown is how many differences are told, those that the walk meets first.
	maxShown = 100
	// tellEvery is after how many paths the progress is told.
	tellEvery = 1000
)

// Config says what to compare.
type Config struct {
	Session     *os.File        // the root of the merged tree
	Image       *squashfs.Image // the environment
	Environment *os.File        // instead of Image: the root of the kernel's mount of it
	Strip       *tree.Strip     // what the environment must not hold
	Added       []string        // absolute paths that only the environment may have

	Progress func(paths, bytes int64) // told now and then by the caller's goroutine; nil: nobody
}

// Result says what came of a comparison.
type Result struct {
	Paths       int64    // that both trees have and that were compared
	Bytes       int64    // of contents; holes of both sides count and are not read
	Differences int64    // a path that one tree lacks counts once, whatever is below it
	First       []string // the first of them, such as "/opt/x: mode 0644 in the session, 0755 in the environment"

	Stripped int64 // paths that the session has and a strip rule matches
	// Directories of which strip rules leave nothing: their times tell of stripped entries alone, and are not compared.
	Emptied int64
	Sockets int64 // that the environment lacks
	Devices int64 // the same of character and block devices
	// Entries of the session with a POSIX access list, or with an xattr of a namespace that squashfs has not.
	ACLs        int64
	Nanoseconds int64 // entries of the session whose time is no whole second
	// Entries of the session whose time is before 1970 or after 2106: the nearest that squashfs holds counts.
	Times int64
}

// Trees compares two trees.
func Trees(ctx context.Context, cfg Config) (Result, error) {
	there, here, err := cfg.roots()
	if err != nil {
		return Result{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := &comparer{
		cfg: cfg, jobs: make(chan job, 8*workers), links: pairs{}, linksHere: pairs{}, added: map[string]bool{},
	}
	for _, path := range cfg.Added {
		c.added[path] = true
	}
	var contents sync.WaitGroup
	for range workers {
		contents.Go(func() { c.work(ctx) })
	}
	err = c.roots(ctx, there, here)
	close(c.jobs)
	contents.Wait()
	if err != nil {
		return Result{}, err
	}
	if ctx.Err() != nil {
		return Result{}, context.Cause(ctx)
	}
	c.result.Bytes = c.bytes.Load()
	c.result.Differences, c.result.First = c.found.sums()
	return c.result, nil
}

func (c Config) roots() (there, here folder, err error) {
	if c.Session == nil || (c.Image == nil) == (c.Environment == nil) {
		return nil, nil, errs.New(
			errs.Internal, "compare: a session's tree and one form of an environment's are needed",
		)
	}
	if there, err = newDirectory(c.Session); err != nil {
		return nil, nil, fmt.Errorf("the session's tree: %w", err)
	}
	if c.Image != nil {
		return there, newImage(c.Image), nil
	}
	if here, err = newDirectory(c.Environment); err != nil {
		return nil, nil, fmt.Errorf("the environment's tree: %w", err)
	}
	return there, here, nil
}

// comparer is one comparison. Its walk is one goroutine, the workers read contents.
type comparer struct {
	cfg              Config
	added            map[string]bool
	jobs             chan job
	links, linksHere pairs // of the session and of the environment
	step             int64 // number of the path that the walk is at
	bytes            atomic.Int64
	found            findings
	result           Result
}

// pairs says which file of the other tree a file with several names stood beside first.
type pairs map[any]any

// roots compares the roots, and then all below them.
func (c *comparer) roots(ctx context.Context, there, here folder) error {
	a, err := there.self()
	if err != nil {
		return err
	}
	b, err := here.self()
	if err != nil {
		return err
	}
	c.both(ctx, place{path: ""}, there, here, a, b)
	return c.folders(ctx, "", there, here, c.cfg.Strip.Top())
}

// folders compares what two directories hold.
func (c *comparer) folders(ctx context.Context, rel string, there, here folder, rules tree.Live) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	a, err := there.names()
	if err != nil {
		c.differ(rel, "the session's directory cannot be read: %v", err)
		return nil
	}
	b, err := here.names()
	if err != nil {
		return fmt.Errorf("list /%s of the environment: %w", rel, err)
	}
	for len(a) > 0 || len(b) > 0 {
		inA := len(b) == 0 || len(a) > 0 && a[0] <= b[0]
		inB := len(a) == 0 || len(b) > 0 && b[0] <= a[0]
		name := first(a, b, inA)
		if inA {
			a = a[1:]
		}
		if inB {
			b = b[1:]
		}
		if rel == "" && name == runtimeDir {
			continue
		}
		p := place{path: tree.Join(rel, name), name: name}
		p.stripped, p.below = rules.Enter(name)
		if err := c.entry(ctx, p, there, here, inA, inB); err != nil {
			return err
		}
	}
	return nil
}

func first(a, b []string, inA bool) string {
	if inA {
		return a[0]
	}
	return b[0]
}

// place is where the walk is.
type place struct {
	path, name string // path from the root, without a leading slash
	stripped   bool
	below      tree.Live
}

// entry compares one name.
func (c *comparer) entry(ctx context.Context, p place, there, here folder, inThere, inHere bool) error {
	c.next()
	switch {
	case p.stripped || !inThere:
		if inThere {
			c.result.Stripped++
		}
		if !inHere {
			return nil
		}
		return c.onlyHere(p, here)
	case !inHere:
		return c.onlyThere(p, there)
	}
	a, err := there.entry(p.name)
	if err != nil {
		c.differ(p.path, "the session's cannot be read: %v", err)
		return nil
	}
	b, err := here.entry(p.name)
	if err != nil {
		return fmt.Errorf("/%s of the environment: %w", p.path, err)
	}
	c.both(ctx, p, there, here, a, b)
	if !a.isDir() || !b.isDir() {
		return nil
	}
	return c.descend(ctx, p, there, here)
}

func (c *comparer) descend(ctx context.Context, p place, there, here folder) error {
	if len(p.path) > tree.MaxPath {
		c.differ(p.path, "its path has %d bytes, too many to compare what is below it", len(p.path))
		return nil
	}
	a, err := there.folder(p.name)
	if err != nil {
		c.differ(p.path, "the session's directory cannot be read: %v", err)
		return nil
	}
	defer a.close()
	b, err := here.folder(p.name)
	if err != nil {
		return fmt.Errorf("/%s of the environment: %w", p.path, err)
	}
	defer b.close()
	return c.folders(ctx, p.path, a, b, p.below)
}

// onlyThere looks at what the environment lacks.
func (c *comparer) onlyThere(p place, there folder) error {
	a, err := there.entry(p.name)
	switch {
	case err != nil:
		c.differ(p.path, "the session's cannot be read: %v", err)
	case a.isSocket():
		c.result.Sockets++
	case a.isDevice():
		c.result.Devices++
	default:
		c.differ(p.path, "a %s in the session, nothing in the environment", a.kind())
	}
	return nil
}

// onlyHere looks at what the environment has and the session has not, or a strip rule matches.
func (c *comparer) onlyHere(p place, here folder) error {
	b, err := here.entry(p.name)
	if err != nil {
		return fmt.Errorf("/%s of the environment: %w", p.path, err)
	}
	switch {
	case !c.added["/"+p.path] && p.stripped:
		c.differ(p.path, "a %s in the environment, where a strip rule wants nothing", b.kind())
		return nil
	case !c.added["/"+p.path]:
		c.differ(p.path, "nothing in the session, a %s in the environment", b.kind())
		return nil
	case !b.isDir():
		return nil
	}
	sub, err := here.folder(p.name)
	if err != nil {
		return fmt.Errorf("/%s of the environment: %w", p.path, err)
	}
	defer sub.close()
	list, err := sub.names()
	if err != nil {
		return fmt.Errorf("list /%s of the environment: %w", p.path, err)
	}
	for _, name := range list {
		if err := c.onlyHere(place{path: tree.Join(p.path, name), name: name, stripped: p.stripped}, sub); err != nil {
			return err
		}
	}
	return nil
}

// both compares two entries of one path.
func (c *comparer) both(ctx context.Context, p place, there, here folder, a, b entry) {
	c.result.Paths++
	c.uncomparable(a)
	if a.isDir() && p.below.All() { // it travels empty, and with the image's time
		c.result.Emptied++
		a.mtime = b.mtime
	}
	for _, why := range a.differences(b) {
		c.differ(p.path, "%s", why)
	}
	if a.format != b.format || a.isDir() {
		return
	}
	if !c.sameLinks(a.file, b.file) {
		c.differ(p.path, "it is one file with other names than in the environment")
	}
	if a.isFile() && a.size == b.size && a.size > 0 {
		c.contents(ctx, p, there, here, a, b)
	}
}

func (c *comparer) uncomparable(a entry) {
	if a.lost > 0 {
		c.result.ACLs++
	}
	if a.nsec != 0 {
		c.result.Nanoseconds++
	}
	if a.seconds() != a.mtime {
		c.result.Times++
	}
}

// sameLinks says whether two files stand beside each other under all of their names, as far as the walk has come. Files
// with one name have nil.
func (c *comparer) sameLinks(a, b any) bool {
	same := true
	if a != nil {
		other, known := c.links[a]
		same = !known || b != nil && other == b
		c.links[a] = b
	}
	if b != nil {
		other, known := c.linksHere[b]
		same = same && (!known || a != nil && other == a)
		c.linksHere[b] = a
	}
	return same
}

// next goes on to another path.
func (c *comparer) next() {
	c.step++
	if c.cfg.Progress != nil && c.step%tellEvery == 0 {
		c.cfg.Progress(c.result.Paths, c.bytes.Load())
	}
}

func (c *comparer) differ(path, format string, args ...any) {
	c.found.add(c.step, path, fmt.Sprintf(format, args...))
}
