package changeset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"slipway/images/tree"
	"slipway/internal/errs"
)

// tick is longer than the clock that file times come from ever stands still.
const tick = 20 * time.Millisecond

// heartbeat is how often a packer says something while it counts: who reads a large tree is not one who has fallen
// silent.
const heartbeat = 10 * time.Second

// resumeTimeout is how long resuming may take when nobody waits any more.
const resumeTimeout = time.Minute

// Config says what to pack.
type Config struct {
	Upper string // the upper directory
	Marks Marks
	Strip *tree.Strip // what never travels; nil: everything does

	// Pause stops all that writes to Upper; nil: nothing does. Resume follows in every case, also when Pause fails.
	Pause, Resume func(context.Context) error

	// Fresh sees to it that a file's content is in Upper, when all stand still; nil: it always is.
	Fresh func(path string, st *unix.Stat_t) error
}

// Pack writes the changes that an upper directory holds. What failed is told on the stream as well.
func Pack(ctx context.Context, cfg Config, w io.Writer) error {
	if err := cfg.Marks.check(); err != nil {
		return err
	}
	root, err := tree.OpenDir(cfg.Upper)
	if err != nil {
		return err
	}
	defer root.Close()
	st, err := tree.StatFile(root)
	if err != nil {
		return err
	}
	p := &packer{cfg: cfg, root: root, dev: st.Dev, out: newSender(w), notes: map[uint64]note{}}
	if cfg.Strip != nil {
		p.rules = cfg.Strip.Top()
	}
	if err = p.run(ctx); err == nil {
		err = p.out.end()
	} else {
		p.out.fault(err)
	}
	if err != nil {
		return fmt.Errorf("pack the changes: %w", err)
	}
	return nil
}

type packer struct {
	cfg   Config
	root  *os.File
	dev   uint64
	rules tree.Live
	out   *sender
	notes map[uint64]note // by inode number
	last  uint64          // number of a content
	buf   []byte
}

func (p *packer) run(ctx context.Context) error {
	count := &pass{packer: p, stage: counting}
	if err := count.walk(ctx); err != nil {
		return err
	}
	if err := p.out.numbers(frameTotals, count.files, count.bytes); err != nil {
		return err
	}
	if p.cfg.Pause == nil {
		return p.settle(ctx)
	}
	// A page that is dirty in a file system in memory is written again without new times, so there all is read in the
	// pause.
	if !inMemory(p.root) {
		if err := (&pass{packer: p, stage: running}).walk(ctx); err != nil {
			return err
		}
	}
	if err := p.out.w.Flush(); err != nil {
		return err
	}
	err := p.cfg.Pause(ctx)
	if err == nil {
		err = p.settle(ctx)
	} else {
		err = fmt.Errorf("pause: %w", err)
	}
	return errors.Join(err, p.resume(ctx))
}

func (p *packer) resume(ctx context.Context) error {
	if p.cfg.Resume == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resumeTimeout)
	defer cancel()
	if err := p.cfg.Resume(ctx); err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	return nil
}

// settle sends the tree, and what contents have not been sent yet.
func (p *packer) settle(ctx context.Context) error {
	return (&pass{packer: p, stage: settling, links: map[uint64]bool{}}).walk(ctx)
}

func inMemory(dir *os.File) bool {
	var st unix.Statfs_t
	err := unix.Fstatfs(int(dir.Fd()), &st)
	return err == nil && (st.Type == unix.TMPFS_MAGIC || st.Type == unix.RAMFS_MAGIC)
}

// The passes. Only the last one decides the tree: what vanishes or changes in an earlier one is left to it.
type stage int

const (
	counting stage = iota
	running        // sends contents
	settling       // sends the tree
)

type pass struct {
	*packer
	stage        stage
	links        map[uint64]bool // inodes of several names that were sent
	files, bytes uint64
	said         time.Time // when it last said how many
}

func (p *pass) walk(ctx context.Context) error {
	root, err := tree.OpenDir(tree.FDPath(int(p.root.Fd()))) // a directory's read position belongs to its descriptor
	if err != nil {
		return err
	}
	defer root.Close()
	return p.folder(ctx, root, child{}, "", p.rules)
}

// folder goes through an open directory.
func (p *pass) folder(ctx context.Context, dir *os.File, c child, path string, rules tree.Live) error {
	list, err := tree.Names(dir)
	if err != nil {
		return fmt.Errorf("list /%s: %w", path, err)
	}
	children, opaque := p.cfg.Marks.children(list)
	sparse := false
	if p.stage == settling {
		if sparse, err = p.enter(dir, c, path, opaque || c.opaque); err != nil {
			return named(path, err)
		}
	}
	for _, c := range children {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		stripped, below := rules.Enter(c.name)
		if stripped {
			continue
		}
		at := tree.Join(path, c.name)
		if err := named(at, p.child(ctx, dir, c, at, below, sparse)); err != nil && !(p.stage != settling && leftForLater(err)) {
			return err
		}
	}
	if p.stage != settling {
		return nil
	}
	return p.out.frame(frameUp)
}

// enter sends the entry of a directory.
func (p *pass) enter(dir *os.File, c child, path string, opaque bool) (sparse bool, err error) {
	st, err := tree.StatFile(dir)
	if err != nil {
		return false, err
	}
	list, err := tree.ReadXattrs(tree.FDPath(int(dir.Fd())))
	if err != nil {
		return false, err
	}
	s, err := p.cfg.Marks.sort(path, list)
	if err != nil {
		return false, err
	}
	e := entryOf(c.name, &st, s)
	if e.opaque = opaque || s.opaque; s.stat != "" {
		if err := e.override(s.stat); err != nil {
			return false, err
		}
	}
	return s.sparse, p.out.frame(frameEntry, e.append(nil))
}

func entryOf(name string, st *unix.Stat_t, s sense) entry {
	e := entry{
		name: name, mode: st.Mode, uid: st.Uid, gid: st.Gid, sec: st.Mtim.Sec, nsec: uint32(st.Mtim.Nsec),
		xattrs: s.own,
	}
	if kind := st.Mode & unix.S_IFMT; kind == unix.S_IFCHR || kind == unix.S_IFBLK {
		e.rdev = st.Rdev
	}
	return e
}

// whiteout is the entry of a name that was deleted.
func whiteout(name string) entry { return entry{name: name, mode: unix.S_IFCHR} }

func (e *entry) isWhiteout() bool { return e.mode&unix.S_IFMT == unix.S_IFCHR && e.rdev == 0 }

// child goes on to an entry of a directory.
func (p *pass) child(ctx context.Context, dir *os.File, c child, path string, rules tree.Live, sparse bool) error {
	if c.deleted {
		return p.deleted(c.name)
	}
	if len(path) > tree.MaxPath {
		return errs.New(
			errs.Conflict, "the path %.60q... has %d bytes, at most %d can be packed", path, len(path), tree.MaxPath,
		).With("shorten or remove it and freeze again")
	}
	st, err := tree.StatAt(dir, c.name)
	switch {
	case err != nil:
		return err
	case st.Dev != p.dev:
		return errs.New(errs.Conflict, "/%s lies on another file system than the upper directory", path)
	case tree.IsDir(&st):
		sub, err := tree.Child(dir, c.name, p.dev)
		if err != nil {
			return err
		}
		defer sub.Close()
		return p.folder(ctx, sub, c, path, rules)
	case tree.IsWhiteout(&st):
		return p.deleted(c.name)
	}
	if p.stage == settling && p.cfg.Fresh != nil && st.Mode&unix.S_IFMT == unix.S_IFREG {
		if err := p.cfg.Fresh(path, &st); err != nil {
			return err
		}
		if st, err = tree.StatAt(dir, c.name); err != nil {
			return err
		}
	}
	p.files++
	if st.Mode&unix.S_IFMT == unix.S_IFREG {
		p.bytes += uint64(min(st.Size, st.Blocks*512))
	}
	switch p.stage {
	case counting:
		return p.beat()
	case running:
		return p.early(ctx, dir, c.name, &st)
	case settling:
		return p.leaf(ctx, dir, c.name, path, &st, sparse)
	}
	return nil
}

// beat says how many it has counted so far, now and then.
func (p *pass) beat() error {
	if time.Since(p.said) < heartbeat {
		return nil
	}
	p.said = time.Now()
	return errors.Join(p.out.numbers(frameTotals, p.files, p.bytes), p.out.w.Flush())
}

func (p *pass) deleted(name string) error {
	if p.stage != settling {
		return nil
	}
	e := whiteout(name)
	return p.out.frame(frameEntry, e.append(nil))
}

// early sends the content of a file while the session runs, when a change of it from now on will show in its times.
func (p *pass) early(ctx context.Context, dir *os.File, name string, st *unix.Stat_t) error {
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size == 0 || p.known(st) != 0 ||
		time.Since(time.Unix(st.Ctim.Unix())) < tick {
		return nil
	}
	_, err := p.content(ctx, dir, name, st)
	return err
}

// leaf sends the entry of what is no directory.
func (p *pass) leaf(ctx context.Context, dir *os.File, name, path string, st *unix.Stat_t, sparse bool) error {
	if st.Nlink > 1 && p.links[st.Ino] {
		e := entry{name: name, mode: st.Mode & unix.S_IFMT, link: st.Ino}
		return p.out.frame(frameEntry, e.append(nil))
	}
	list, err := tree.EntryXattrs(dir, name)
	if err != nil {
		return err
	}
	s, err := p.cfg.Marks.sort(path, list)
	if err != nil {
		return err
	}
	if s.whiteout && sparse {
		return p.deleted(name)
	}
	e := entryOf(name, st, s)
	if s.stat != "" {
		if err := e.override(s.stat); err != nil {
			return err
		}
	}
	switch e.mode & unix.S_IFMT {
	case unix.S_IFLNK:
		e.target, err = os.Readlink(tree.Under(dir, name))
	case unix.S_IFREG:
		if e.content = p.known(st); e.content == 0 && st.Size > 0 {
			e.content, err = p.content(ctx, dir, name, st)
		}
	}
	if err != nil {
		return err
	}
	if st.Nlink > 1 {
		e.link, p.links[st.Ino] = st.Ino, true
	}
	return p.out.frame(frameEntry, e.append(nil))
}
