package graft

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"slipway/images/squashfs"
	"slipway/images/tree"
	"slipway/internal/errs"
)

// pass is one walk of the upper directory. A running pass only stores contents, and leaves what changes or vanishes to
// the next; the last one decides the tree, and every error is one.
type pass struct {
	g       *grafter
	ctx     context.Context
	running bool
	in      *intake
	scout   *scout
	print   *print
	waits   int
	links   map[inode]*squashfs.Node    // inodes with several names
	sets    map[string]*squashfs.Xattrs // by content
	losses  Losses
	root    *squashfs.Node
}

// inode names an inode. All of an upper directory's have one device; a whole tree may be of several.
type inode struct{ dev, number uint64 }

func (g *grafter) newPass(ctx context.Context, stage Stage) *pass {
	in := newIntake(ctx, g, stage)
	return &pass{
		g: g, ctx: in.ctx, running: stage == Reading, in: in, print: newPrint(),
		links: map[inode]*squashfs.Node{}, sets: map[string]*squashfs.Xattrs{},
	}
}

// walk returns when all contents that it came upon are stored or left.
func (p *pass) walk() error {
	return p.in.close(p.top())
}

func (p *pass) top() error {
	scout, top := newScout(p.ctx, scouts(), p.g.root, p.g.dev, p.g.cfg.Strip.Top(), p.g.notes, p.g.whole())
	defer scout.end()
	p.scout = scout
	if err := scout.visit(top); err != nil {
		return named("", err)
	}
	p.print.note("", &top.stat)
	var err error
	p.root, err = p.merged(top, lower{node: p.g.baseRoot()}, lower{})
	p.g.result.Losses = p.losses
	return err
}

// merged gives the directory that one of the upper directory makes of base's of the same path; parent is what lies under the directory
// that it is in.
func (p *pass) merged(f *folder, below, parent lower) (*squashfs.Node, error) {
	xattrs, marks, err := p.attributes(f.path, f.xattrs)
	if err != nil {
		return nil, named(f.path, err)
	}
	base := below.node
	st := f.stat
	if f.rules.All() { // its times tell of what does not travel: the fingerprint leaves them out, and so does the tree
		st.Mtim = unix.Timespec{Sec: emptiedAt}
		if base != nil && base.MTime != generatedAt {
			st.Mtim.Sec = int64(base.MTime)
		}
	}
	n := p.node(f.path, &st, xattrs)
	switch {
	case f.path == "": // overlayfs always merges the root
	case marks.opaque:
		below = lower{}
	case marks.redirect != "":
		if below, err = p.renamedDir(f.path, marks.redirect, parent); err != nil {
			return nil, err
		}
	}
	changes, err := p.children(f, below)
	if err != nil || p.running {
		return n, err
	}
	n.Children = merge(below.children(), changes, f.rules)
	return n, nil
}

// children gives what the entries of a directory change, in byte order of names.
func (p *pass) children(f *folder, below lower) ([]squashfs.Entry, error) {
	var changes []squashfs.Entry
	for _, part := range f.parts {
		if err := p.ctx.Err(); err != nil {
			return nil, err
		}
		entries := p.scout.look(part)
		p.print.add(part.print)
		for i := range entries {
			e := &entries[i]
			n, err := p.entry(f, e, below)
			switch {
			case err != nil && p.running && leftForLater(err):
			case err != nil:
				return nil, err
			case !p.running:
				p.took(e.path, child(below.children(), e.name), n)
				changes = append(changes, squashfs.Entry{Name: e.name, Node: n})
			}
		}
	}
	return changes, nil
}

// leftForLater says whether an error is one of a single entry, which may be gone or whole in the next pass.
func leftForLater(err error) bool {
	var number unix.Errno
	return errors.As(err, &number) || errors.Is(err, errMoved)
}

// took notes what became of an entry.
func (p *pass) took(path string, old, n *squashfs.Node) {
	r := &p.g.result
	switch {
	case p.g.whole():
	case n != nil:
		r.Changed = append(r.Changed, "/"+path)
	case old != nil:
		r.Deleted = append(r.Deleted, "/"+path)
	}
}

// entry gives the node of an entry, nil for one that deletes, or that cannot be held.
func (p *pass) entry(dir *folder, e *entry, below lower) (*squashfs.Node, error) {
	if e.err != nil {
		return nil, named(e.path, e.err)
	}
	switch {
	case e.folder != nil:
		return p.subdir(e, below)
	case tree.IsWhiteout(&e.stat): // before links: engines link all whiteouts together
		return nil, nil
	case p.skips(e):
		return nil, nil
	}
	id := inode{e.stat.Dev, e.stat.Ino}
	if known := p.links[id]; known != nil && e.stat.Nlink > 1 {
		return known, nil
	}
	n, err := p.leaf(dir, e, below)
	if err == nil && e.stat.Nlink > 1 {
		p.links[id] = n
	}
	return n, named(e.path, err)
}

// skips says whether an entry is of a kind that does not travel, and notes it. Those of an image do.
func (p *pass) skips(e *entry) bool {
	if p.g.whole() && !p.g.cfg.Omit[e.path] {
		return false
	}
	var list *[]string
	switch e.stat.Mode & unix.S_IFMT {
	case unix.S_IFSOCK:
		list = &p.g.result.Sockets
	case unix.S_IFCHR, unix.S_IFBLK:
		list = &p.g.result.Devices
	default:
		return false
	}
	if !p.running {
		*list = append(*list, "/"+e.path)
	}
	return true
}

func (p *pass) subdir(e *entry, parent lower) (*squashfs.Node, error) {
	if err := p.scout.visit(e.folder); err != nil {
		return nil, named(e.path, err)
	}
	n, err := p.merged(e.folder, parent.dir(e.name), parent)
	if err == nil {
		p.scout.leave(e.folder)
	}
	return n, err
}

// leaf makes the node of what is no directory.
func (p *pass) leaf(dir *folder, e *entry, below lower) (*squashfs.Node, error) {
	if e.note.plain {
		n := p.node(e.path, &e.stat, e.note.xattrs)
		n.Data = e.note.data
		return n, nil
	}
	before := p.losses.ACLs.Count + p.losses.Xattrs.Count
	xattrs, marks, err := p.attributes(e.path, e.xattrs)
	if err != nil {
		return nil, err
	}
	n := p.node(e.path, &e.stat, xattrs)
	n.Target = e.target
	switch {
	case n.Kind != squashfs.File:
	case marks.metacopy:
		n.Data, err = p.keptContent(e, marks.redirect, below)
	default:
		err = p.content(dir, e, n, e.ripe && before == p.losses.ACLs.Count+p.losses.Xattrs.Count)
	}
	return n, err
}

// errMoved says that an entry is not what it was a moment ago.
var errMoved = errors.New("it changed while it was read")

// named tells which entry an error is about.
func named(path string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errMoved):
		return errs.New(errs.Conflict, "/%s: %w", path, err).With("freeze again when nothing writes to it")
	case errs.KindOf(err) != errs.Internal:
		return err
	default:
		return fmt.Errorf("graft /%s: %w", path, err)
	}
}

// content finds or stores what a regular file holds. plain says that its xattrs are known for as long as its times stay.
func (p *pass) content(dir *folder, e *entry, n *squashfs.Node, plain bool) error {
	if e.stat.Size == 0 {
		return nil
	}
	if n.Data = e.note.data; n.Data != nil {
		return nil
	}
	if p.running {
		if ripe, err := p.ripe(dir.file, e.name, &e.stat); err != nil || !ripe {
			return err
		}
	}
	f, err := openRaw(dir.file, e.name, e.path)
	if err != nil {
		return err
	}
	now, err := f.stat()
	if err == nil && (!unchanged(&now, &e.stat) || now.Dev != e.stat.Dev) {
		err = errMoved
	}
	if err != nil {
		return errors.Join(err, f.close())
	}
	return p.in.add(&job{file: f, path: e.path, stat: now, node: n, plain: plain, ready: make(chan struct{})})
}

// maxWaits bounds how often one pass stops for files that have just been written.
const maxWaits = 3

// ripe says whether a change of the file from now on will show in its times. For a file that is merely young it waits; one
// that is written all the time is left to the next pass.
func (p *pass) ripe(dir *os.File, name string, st *unix.Stat_t) (bool, error) {
	if age(st) >= tick {
		return true, nil
	}
	if p.waits >= maxWaits {
		return false, nil
	}
	p.waits++
	if err := wait(p.ctx, tick); err != nil {
		return false, err
	}
	now, err := tree.StatAt(dir, name)
	return err == nil && unchanged(&now, st) && age(st) >= tick, err
}

func age(st *unix.Stat_t) time.Duration { return time.Since(time.Unix(st.Ctim.Sec, st.Ctim.Nsec)) }
