package graft

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"slipway/images/squashfs"
	"slipway/images/tree"
)

// resumeTimeout is how long resuming the source may take when nobody waits any more.
const resumeTimeout = time.Minute

// Stage is a step of a graft.
type Stage string

// The stages, in their order.
const (
	Reading Stage = "reading" // storing contents while the source runs
	Paused  Stage = "paused"  // deciding the tree, and storing what has changed since
	Tables  Stage = "tables"  // writing the new tables
)

// Config says what to graft onto what.
type Config struct {
	Base  *squashfs.Image // nil: there is none, and Upper is a whole tree, as an overlay that is mounted shows it
	Upper string          // the overlay's upper directory
	Strip *tree.Strip     // what never travels

	// Of a whole tree alone.
	// Paths of what does not travel either: sockets and devices of a session's; nil: it is an image's.
	Omit    map[string]bool
	Runtime []File // what the runtime directory holds

	// Pause stops all that writes to Upper; nil: nothing does. Resume follows in every case, also when Pause fails.
	Pause, Resume func(context.Context) error

	// Look sees the content of each regular file of up to 1 MiB before it is stored; nil: nobody looks. It is called by
	// several goroutines at once, again for a file that changed meanwhile, and for files that are gone in the end. It
	// must not keep the content.
	Look func(path string, content []byte)

	// Out receives the tail, when the source runs again and it is known where everything lies in it; of a whole tree at
	// once.
	Out io.Writer
	// Of this stage so far; nil: nobody is told. Quick, and called by one goroutine at a time.
	Progress func(stage Stage, files, bytes int64)
	// Nothing from here on is of a whole tree, but for Workers and Level. Pack receives what is stored, in the order in
	// which it is found, and then the tables; what is written can be read. Nil: a temporary file. PackName is its name
	// in the result.
	Pack interface {
		io.Writer
		io.ReaderAt
	}
	PackName string

	// Known is what an earlier graft of the same upper directory has left, nil: nothing. What it knows is not read
	// again, nor looked at. OpenPack opens the packs that it names; an error means that they have gone. An error that
	// is ErrMemory says to do without.
	Known    *Memory
	OpenPack func(name string) (r io.ReaderAt, size int64, err error)
	About    string // what else must be equal for an earlier graft's memory to hold

	Workers int // goroutines that compress; 0: one for each core
	Level   squashfs.Level
}

// File is a file that the graft makes.
type File struct {
	Path    string // below the runtime directory
	Mode    uint16
	Content []byte
}

// Result is what a graft made.
type Result struct {
	Super    squashfs.Superblock // of base and tail together
	Root     *squashfs.Node
	TailSize int64
	Tail     []Extent // the tail, by where it lies in packs; nil of a whole tree

	// Not of a whole tree.
	Unread   map[*squashfs.Node]bool       // files of more than 1 MiB whose content an earlier graft has read
	Remember func(except []string) *Memory // makes what this graft leaves to the next one, but for some paths

	Files, Bytes int64    // of the upper directory, as Scan counts them
	Changed      []string // what the upper directory put into the tree, in the order of the walk; not of a whole tree
	Deleted      []string // what the base has and the upper directory hides
	Sockets      []string // of the upper directory, which are left out
	Devices      []string // the same of character and block devices
	Added        []string // what the tree lacked and a runtime needs
	Losses       Losses

	Redone int           // files that were stored while the source was paused
	Passes int           // walks before the pause
	Paused time.Duration // from the call of Pause to the return of Resume
	State  string        // the fingerprint of the upper directory at the pause, as Scan gives it
}

// grafter is one graft.
type grafter struct {
	cfg    Config
	root   *os.File // the upper directory
	dev    uint64
	out    *counter // to own
	own    *pack
	packs  []*pack // earlier ones
	temp   *os.File
	writer *squashfs.Writer
	notes  *notes
	result Result
}

// Graft writes the tail of cfg.Base with the changes of cfg.Upper to cfg.Out.
func Graft(ctx context.Context, cfg Config) (Result, error) {
	g, err := begin(cfg)
	if err != nil {
		return Result{}, err
	}
	defer g.close()
	if err := g.recall(); err != nil {
		return Result{}, err
	}
	if err := g.run(ctx); err != nil {
		return Result{}, err
	}
	return g.result, nil
}

func begin(cfg Config) (*grafter, error) {
	if cfg.Progress == nil {
		cfg.Progress = func(Stage, int64, int64) {}
	}
	root, err := tree.OpenDir(cfg.Upper)
	if err != nil {
		return nil, err
	}
	g := &grafter{cfg: cfg, root: root, notes: newNotes()}
	if err := g.prepare(); err != nil {
		g.close()
		return nil, err
	}
	return g, nil
}

func (g *grafter) prepare() error {
	st, err := tree.StatFile(g.root)
	if err != nil {
		return err
	}
	g.dev = st.Dev
	if g.cfg.Pack == nil && !g.whole() {
		if g.temp, err = os.CreateTemp("", "graft-"); err != nil {
			return err
		}
		if err := os.Remove(g.temp.Name()); err != nil {
			return err
		}
		g.cfg.Pack = g.temp
	}
	if g.out = (&counter{to: g.cfg.Out}); !g.whole() {
		g.out.to = g.cfg.Pack
		g.own = &pack{name: g.cfg.PackName, r: g.cfg.Pack, origin: g.cfg.Base.Super.InodeTable, own: true}
	}
	g.writer, err = squashfs.NewWriter(squashfs.WriterConfig{
		Base: g.cfg.Base, Out: g.out, Workers: g.cfg.Workers, Level: g.cfg.Level, ModTime: generatedAt,
	})
	return err
}

// close lets go of everything; what was only read, or is not wanted, has nothing to lose.
func (g *grafter) close() {
	if g.writer != nil {
		g.writer.Close()
	}
	if g.temp != nil {
		_ = g.temp.Close()
	}
	_ = g.root.Close()
}

func (g *grafter) run(ctx context.Context) error {
	top, err := g.precopy(ctx)
	if err != nil {
		return err
	}
	if top, err = g.settle(ctx, top); err != nil {
		return err
	}
	g.cfg.Progress(Tables, 0, 0)
	p := g.newPass()
	root, err := p.tree(ctx, top)
	if err != nil {
		return err
	}
	g.result.Files, g.result.Bytes, g.result.State = p.print.sums()
	root, g.result.Added = addSkeleton(root, g.baseRoot())
	if g.whole() {
		return g.finishWhole(ctx, root)
	}
	return g.finish(ctx, root, p.files)
}

// finishWhole writes the rest of an image without a base.
func (g *grafter) finishWhole(ctx context.Context, root *squashfs.Node) (err error) {
	if root, err = g.addRuntime(ctx, root); err != nil {
		return fmt.Errorf("write /%s: %w", runtimeDir, err)
	}
	if g.result.Super, err = g.writer.Finish(ctx, root); err != nil {
		return fmt.Errorf("write tables: %w", err)
	}
	g.result.Root, g.result.TailSize = root, g.out.n
	return nil
}

// finish writes the tail of a tree.
func (g *grafter) finish(ctx context.Context, root *squashfs.Node, files []placed) error {
	l, err := g.lay(ctx, files)
	if err != nil {
		return err
	}
	if g.result.Tail, err = l.write(ctx); err != nil {
		return err
	}
	begin := g.out.n
	if g.result.Super, err = g.writer.FinishAt(ctx, root, l.fragments(), l.at, io.MultiWriter(sink(g.emit), g.out)); err != nil {
		return err
	}
	g.result.Tail = extend(g.result.Tail, Extent{g.own.name, begin, g.out.n - begin})
	g.result.Root = root
	g.result.Unread = map[*squashfs.Node]bool{}
	for _, f := range files {
		if f.note.earlier != 0 && f.note.size > smallMax {
			g.result.Unread[f.node] = true
		}
	}
	about, err := g.about()
	g.result.Remember = func(except []string) *Memory { return remember(about, files, except) }
	return err
}

// sink is a function that takes all that it is given.
type sink func([]byte) error

func (w sink) Write(b []byte) (int, error) {
	if err := w(b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// whole says that there is no base, so that the tree is all of the result.
func (g *grafter) whole() bool { return g.cfg.Base == nil }

// image says that the tree is an image's, which nobody writes to: the times of directories that travel empty are its
// own.
func (g *grafter) image() bool { return g.whole() && g.cfg.Omit == nil }

func (g *grafter) baseRoot() *squashfs.Node {
	if g.whole() {
		return nil
	}
	return g.cfg.Base.Root
}

// The running passes.
const (
	maxPasses  = 3
	longPass   = 2 * time.Second
	muchStored = 64 << 20
)

// worthAnother says whether a further running pass pays: the one before took so long that much can have changed
// meanwhile. They are bounded, as what changes all the time is stored by each of them.
func worthAnother(passes int, took time.Duration, stored int64) bool {
	return passes < maxPasses && took >= longPass && stored >= muchStored
}

// precopy stores contents while the source runs, so that little is left to do in the pause. It gives what it found;
// nil: it did not look.
func (g *grafter) precopy(ctx context.Context) (*folder, error) {
	if g.cfg.Pause == nil || g.whole() || inMemory(g.root) {
		return nil, nil
	}
	for {
		start := time.Now()
		top, in, err := g.survey(ctx, Reading)
		if err != nil {
			return nil, err
		}
		g.result.Passes++
		if !worthAnother(g.result.Passes, time.Since(start), in.bytes) {
			return top, nil
		}
	}
}

// inMemory says whether a file system keeps its pages dirty for ever, so that a shared mapping is written without new
// times.
func inMemory(dir *os.File) bool {
	var st unix.Statfs_t
	err := unix.Fstatfs(int(dir.Fd()), &st)
	return err == nil && (st.Type == unix.TMPFS_MAGIC || st.Type == unix.RAMFS_MAGIC)
}

// settle finds out what the tree is while the source is paused, and stores what is not stored yet.
func (g *grafter) settle(ctx context.Context, top *folder) (_ *folder, err error) {
	var again *revisit
	if top != nil {
		again = g.newRevisit(top)
	}
	if g.cfg.Pause != nil {
		start := time.Now()
		defer func() {
			err = errors.Join(err, g.resume(ctx))
			g.result.Paused = time.Since(start)
			if err == nil && again != nil {
				settleFolders(top)
			}
		}()
		if err := g.cfg.Pause(ctx); err != nil {
			return nil, fmt.Errorf("pause: %w", err)
		}
	}
	if again == nil {
		return g.standing(ctx)
	}
	if g.result.Redone, err = again.run(ctx); err != nil {
		return nil, err
	}
	return top, ripen(ctx, again.newest)
}

// standing surveys a source that has not been looked at before.
func (g *grafter) standing(ctx context.Context) (*folder, error) {
	top, in, err := g.survey(ctx, Paused)
	if err != nil {
		return nil, err
	}
	g.result.Redone = in.files
	if g.cfg.Pause == nil {
		return top, nil
	}
	return top, ripen(ctx, newestOf(top))
}

// newestOf returns the newest ctime.
func newestOf(f *folder) time.Time {
	newest := time.Unix(f.stat.Ctim.Sec, f.stat.Ctim.Nsec)
	for _, p := range f.parts {
		if p.print.newest.After(newest) {
			newest = p.print.newest
		}
		for i := range p.entries {
			if below := p.entries[i].folder; below != nil {
				if at := newestOf(below); at.After(newest) {
					newest = at
				}
			}
		}
	}
	return newest
}

// resume lets the source go on, also when nobody waits for the graft any more.
func (g *grafter) resume(ctx context.Context) error {
	if g.cfg.Resume == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resumeTimeout)
	defer cancel()
	if err := g.cfg.Resume(ctx); err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	return nil
}

// counter counts what goes through it.
type counter struct {
	to io.Writer
	n  int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.to.Write(b)
	c.n += int64(n)
	return n, err
}
