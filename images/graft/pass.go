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
	print   *print
	waits   int
	links   map[uint64]*squashfs.Node   // inodes with several names
	sets    map[string]*squashfs.Xattrs // by content
	losses  Losses
	root    *squashfs.Node
}

func (g *grafter) newPass(ctx context.Context, stage Stage) *pass {
	in := newIntake(ctx, g, stage)
	return &pass{
		g: g, ctx: in.ctx, running: stage == Reading, in: in, print: newPrint(),
		links: map[uint64]*squashfs.Node{}, sets: map[string]*squashfs.Xattrs{},
	}
}

// walk returns when all contents that it came upon are stored or left.
func (p *pass) walk() error {
	return p.in.close(p.top())
}

func (p *pass) top() error {
	root, err := tree.OpenDir(tree.FDPath(int(p.g.root.Fd()))) // a directory's read position belongs to its descriptor
	if err != nil {
		return err
	}
	defer root.Close()
	base := p.g.cfg.Base.Root
	p.root, err = p.merged(root, "", base, p.g.cfg.Strip.Top())
	p.g.result.Losses = p.losses
	return err
}

// merged gives the directory that dir makes of base's directory of the same path; a base of nil: there is none.
func (p *pass) merged(dir *os.File, path string, base *squashfs.Node, rules tree.Live) (*squashfs.Node, error) {
	n, opaque, err := p.directory(dir, path)
	if err != nil {
		return nil, named(path, err)
	}
	// Or a session that was stopped and started again, with a new /tmp, would be another environment. What the image lacks and the base
	// was given stays the session's.
	if base != nil && rules.All() && base.MTime != generatedAt {
		n.MTime = base.MTime
	}
	var below []squashfs.Entry
	if base != nil && (!opaque || path == "") { // overlayfs always merges the root
		below = base.Children
	}
	changes, err := p.children(dir, path, below, rules)
	if err != nil || p.running {
		return n, err
	}
	n.Children = merge(below, changes, rules)
	return n, nil
}

// directory makes the node of an open directory, without what lies in it.
func (p *pass) directory(dir *os.File, path string) (n *squashfs.Node, opaque bool, err error) {
	st, err := tree.StatFile(dir)
	if err != nil {
		return nil, false, err
	}
	p.print.note(path, &st)
	list, err := tree.ReadXattrs(tree.FDPath(int(dir.Fd())))
	if err != nil {
		return nil, false, err
	}
	xattrs, opaque, err := p.attributes(path, list)
	return p.node(path, &st, xattrs), opaque, err
}

// children gives what the entries of dir change, in byte order of names.
func (p *pass) children(dir *os.File, rel string, base []squashfs.Entry, rules tree.Live) ([]squashfs.Entry, error) {
	list, err := tree.Names(dir)
	if err != nil {
		return nil, fmt.Errorf("list /%s: %w", rel, err)
	}
	var changes []squashfs.Entry
	for _, name := range list {
		if err := p.ctx.Err(); err != nil {
			return nil, err
		}
		stripped, below := rules.Enter(name)
		if stripped || rel == "" && name == runtimeDir {
			continue
		}
		path, old := tree.Join(rel, name), child(base, name)
		n, err := p.entry(dir, name, path, old, below)
		switch {
		case err != nil && p.running && leftForLater(err):
		case err != nil:
			return nil, err
		case !p.running:
			p.took(path, old, n)
			changes = append(changes, squashfs.Entry{Name: name, Node: n})
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
	case n != nil:
		r.Changed = append(r.Changed, "/"+path)
	case old != nil:
		r.Deleted = append(r.Deleted, "/"+path)
	}
}

// entry gives the node of an entry, nil for one that deletes, or that cannot be held.
func (p *pass) entry(dir *os.File, name, path string, base *squashfs.Node, below tree.Live) (*squashfs.Node, error) {
	st, err := look(dir, name, path, p.g.dev)
	if err != nil {
		return nil, named(path, err)
	}
	if tree.IsDir(&st) {
		return p.subdir(dir, name, path, base, below)
	}
	p.print.note(path, &st)
	switch {
	case tree.IsWhiteout(&st): // before links: engines link all whiteouts together
		return nil, nil
	case st.Mode&unix.S_IFMT == unix.S_IFSOCK:
		p.skip(path)
		return nil, nil
	}
	if known := p.links[st.Ino]; known != nil && st.Nlink > 1 {
		return known, nil
	}
	n, err := p.leaf(dir, name, path, &st)
	if err == nil && st.Nlink > 1 {
		p.links[st.Ino] = n
	}
	return n, named(path, err)
}

func (p *pass) skip(path string) {
	if !p.running {
		p.g.result.Skipped = append(p.g.result.Skipped, "/"+path)
	}
}

func (p *pass) subdir(dir *os.File, name, path string, base *squashfs.Node, below tree.Live) (*squashfs.Node, error) {
	sub, err := tree.Child(dir, name, p.g.dev)
	if err != nil {
		return nil, named(path, err)
	}
	defer sub.Close()
	if base != nil && base.Kind != squashfs.Dir {
		base = nil
	}
	return p.merged(sub, path, base, below)
}

// leaf makes the node of what is no directory.
func (p *pass) leaf(dir *os.File, name, path string, st *unix.Stat_t) (*squashfs.Node, error) {
	list, err := tree.EntryXattrs(dir, name)
	if err != nil {
		return nil, err
	}
	xattrs, _, err := p.attributes(path, list)
	if err != nil {
		return nil, err
	}
	n := p.node(path, st, xattrs)
	switch n.Kind {
	case squashfs.Symlink:
		n.Target, err = readlink(dir, name)
	case squashfs.File:
		err = p.content(dir, name, path, st, n)
	}
	return n, err
}

func readlink(dir *os.File, name string) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(dir.Fd()), name, buf)
	if err != nil {
		return "", &os.PathError{Op: "readlink", Path: name, Err: err}
	}
	return string(buf[:n]), nil
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

// content finds or stores what a regular file holds.
func (p *pass) content(dir *os.File, name, path string, st *unix.Stat_t, n *squashfs.Node) error {
	if st.Size == 0 {
		return nil
	}
	if data := p.g.notes.find(st); data != nil {
		n.Data = data
		return nil
	}
	if p.running {
		if ripe, err := p.ripe(dir, name, st); err != nil || !ripe {
			return err
		}
	}
	f, err := tree.Open(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return err
	}
	now, err := tree.StatFile(f)
	if err == nil && (!unchanged(&now, st) || now.Dev != st.Dev) {
		err = errMoved
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	return p.in.add(&job{file: f, path: path, stat: now, node: n, ready: make(chan struct{})})
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
