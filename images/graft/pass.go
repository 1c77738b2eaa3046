package graft

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"slipway/images/squashfs"
	"slipway/images/tree"
	"slipway/internal/errs"
)

// pass makes the tree of what a survey has found. It reads nothing, so that the source may run meanwhile.
type pass struct {
	g      *grafter
	print  *print
	files  []placed                    // that have content, but for a whole tree's
	links  map[inode]*squashfs.Node    // inodes with several names
	sets   map[string]*squashfs.Xattrs // by content
	losses Losses
}

// inode names an inode. All of an upper directory's have one device; a whole tree may be of several.
type inode struct{ dev, number uint64 }

func inodeOf(st *unix.Stat_t) inode { return inode{st.Dev, st.Ino} }

func (g *grafter) newPass() *pass {
	return &pass{
		g: g, print: newPrint(), links: map[inode]*squashfs.Node{}, sets: map[string]*squashfs.Xattrs{},
	}
}

// tree returns the tree, without the places of contents.
func (p *pass) tree(ctx context.Context, top *folder) (*squashfs.Node, error) {
	p.print.note("", &top.stat)
	root, err := p.merged(ctx, top, lower{node: p.g.baseRoot()}, lower{})
	p.g.result.Losses = p.losses
	return root, err
}

// merged returns the directory that one of the upper directory makes of base's of the same path; parent is what lies
// under the directory that it is in.
func (p *pass) merged(ctx context.Context, f *folder, below, parent lower) (*squashfs.Node, error) {
	xattrs, marks, err := p.attributes(f.path, f.xattrs)
	if err != nil {
		return nil, named(f.path, err)
	}
	base := below.node
	st := f.stat
	// its times tell of what does not travel: the fingerprint leaves them out, and so does the tree
	if f.rules.All() && !p.g.image() {
		st.Mtim = unix.Timespec{Sec: emptiedAt}
		if base != nil && base.MTime != generatedAt {
			st.Mtim.Sec = int64(base.MTime)
		}
	}
	n := p.node(f.path, &st, xattrs)
	if below, err = p.beneath(f.path, marks, below, parent); err != nil {
		return nil, err
	}
	changes, err := p.children(ctx, f, below)
	if err != nil {
		return nil, err
	}
	n.Children = merge(below.children(), changes, f.rules)
	return n, nil
}

// children returns what the entries of a directory change, in byte order of names.
func (p *pass) children(ctx context.Context, f *folder, below lower) ([]squashfs.Entry, error) {
	var changes []squashfs.Entry
	for _, part := range f.parts {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if part.stale {
			part.print = printOf(part)
		}
		p.print.add(part.print)
		for i := range part.entries {
			e := &part.entries[i]
			n, err := p.entry(ctx, e, below)
			if err != nil {
				return nil, err
			}
			p.took(e.path, child(below.children(), e.name), n)
			changes = append(changes, squashfs.Entry{Name: e.name, Node: n})
		}
	}
	return changes, nil
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

// entry returns the node of an entry, nil for one that deletes, or that cannot be held.
func (p *pass) entry(ctx context.Context, e *entry, below lower) (*squashfs.Node, error) {
	if e.err != nil {
		return nil, named(e.path, e.err)
	}
	switch {
	case e.folder != nil:
		return p.subdir(ctx, e, below)
	case tree.IsWhiteout(&e.stat): // before links: engines link all whiteouts together
		return nil, nil
	case p.skips(e):
		return nil, nil
	}
	id := inodeOf(&e.stat)
	if known := p.links[id]; known != nil && e.stat.Nlink > 1 {
		return known, nil
	}
	n, err := p.leaf(e, below)
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
	*list = append(*list, "/"+e.path)
	return true
}

func (p *pass) subdir(ctx context.Context, e *entry, parent lower) (*squashfs.Node, error) {
	if e.folder.err != nil {
		return nil, named(e.path, e.folder.err)
	}
	return p.merged(ctx, e.folder, parent.dir(e.name), parent)
}

// leaf makes the node of what is no directory.
func (p *pass) leaf(e *entry, below lower) (*squashfs.Node, error) {
	known := p.g.known(e)
	if known != nil && known.plain {
		n := p.node(e.path, &e.stat, known.xattrs)
		p.place(e, n, known)
		return n, nil
	}
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
	case e.stat.Size == 0:
	case known == nil:
		err = errMoved
	default:
		p.place(e, n, known)
	}
	return n, err
}

// place gives a node its content, which of a whole tree lies where it was stored, and else is laid out when the tree is
// known.
func (p *pass) place(e *entry, n *squashfs.Node, known *note) {
	if p.g.whole() {
		n.Data = known.data
		return
	}
	p.files = append(p.files, placed{e.path, e.stat.Ino, uint64(e.stat.Nlink), n, known})
}

// known returns what is known of a file's content.
func (g *grafter) known(e *entry) *note {
	if e.stat.Mode&unix.S_IFMT != unix.S_IFREG || e.stat.Size == 0 {
		return nil
	}
	if g.whole() {
		return e.note
	}
	return g.notes.find(&e.stat, e.path)
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
