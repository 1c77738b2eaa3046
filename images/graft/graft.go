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
	Omit    map[string]bool // paths of what does not travel either: sockets and devices of a session's
	Runtime []File          // what the runtime directory holds

	// Pause stops all that writes to Upper; nil: nothing does. Resume follows in every case, also when Pause fails.
	Pause, Resume func(context.Context) error

	// Look sees the content of each regular file of up to 1 MiB before it is stored; nil: nobody looks. It is called by
	// several goroutines at once, again for a file that changed meanwhile, and for files that are gone in the end. It
	// must not keep the content.
	Look func(path string, content []byte)

	Out      io.Writer                             // receives the tail
	Progress func(stage Stage, files, bytes int64) // of this stage so far; nil: nobody is told. Quick, and called by one goroutine at a time
	Workers  int                                   // goroutines that compress; 0: one for each core
	Level    squashfs.Level
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
	out    *counter
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
	defer g.root.Close()
	defer g.writer.Close()
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
	st, err := tree.StatFile(root)
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	g := &grafter{cfg: cfg, root: root, dev: st.Dev, out: &counter{to: cfg.Out}, notes: newNotes()}
	g.writer, err = squashfs.NewWriter(squashfs.WriterConfig{
		Base: cfg.Base, Out: g.out, Workers: cfg.Workers, Level: cfg.Level, ModTime: generatedAt,
	})
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return g, nil
}

func (g *grafter) run(ctx context.Context) error {
	if err := g.precopy(ctx); err != nil {
		return err
	}
	root, err := g.settle(ctx)
	if err != nil {
		return err
	}
	g.cfg.Progress(Tables, 0, 0)
	if root, g.result.Added = addSkeleton(root, g.baseRoot()); g.whole() {
		if root, err = g.addRuntime(ctx, root); err != nil {
			return fmt.Errorf("write /%s: %w", runtimeDir, err)
		}
	}
	if g.result.Super, err = g.writer.Finish(ctx, root); err != nil {
		return fmt.Errorf("write tables: %w", err)
	}
	g.result.Root, g.result.TailSize = root, g.out.n
	return nil
}

// whole says that there is no base, so that the tree is all of the result.
func (g *grafter) whole() bool { return g.cfg.Base == nil }

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

// worthAnother says whether a further running pass pays: the one before took so long that much can have changed meanwhile.
// They are bounded, as what changes all the time is stored by each of them.
func worthAnother(passes int, took time.Duration, stored int64) bool {
	return passes < maxPasses && took >= longPass && stored >= muchStored
}

// precopy stores contents while the source runs, so that little is left to do in the pause.
func (g *grafter) precopy(ctx context.Context) error {
	if g.cfg.Pause == nil || inMemory(g.root) {
		return nil
	}
	for {
		start := time.Now()
		p := g.newPass(ctx, Reading)
		if err := p.walk(); err != nil {
			return err
		}
		g.result.Passes++
		if !worthAnother(g.result.Passes, time.Since(start), p.in.bytes) {
			return nil
		}
	}
}

// inMemory says whether a file system keeps its pages dirty for ever, so that a shared mapping is written without new times.
func inMemory(dir *os.File) bool {
	var st unix.Statfs_t
	err := unix.Fstatfs(int(dir.Fd()), &st)
	return err == nil && (st.Type == unix.TMPFS_MAGIC || st.Type == unix.RAMFS_MAGIC)
}

// settle decides the tree while the source is paused.
func (g *grafter) settle(ctx context.Context) (root *squashfs.Node, err error) {
	if g.cfg.Pause != nil {
		start := time.Now()
		defer func() {
			err = errors.Join(err, g.resume(ctx))
			g.result.Paused = time.Since(start)
		}()
		if err := g.cfg.Pause(ctx); err != nil {
			return nil, fmt.Errorf("pause: %w", err)
		}
	}
	p := g.newPass(ctx, Paused)
	if err := p.walk(); err != nil {
		return nil, err
	}
	g.result.Files, g.result.Bytes, g.result.State = p.print.sums()
	g.result.Redone = p.in.files
	if g.cfg.Pause == nil {
		return p.root, nil
	}
	return p.root, p.print.ripen(ctx)
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
