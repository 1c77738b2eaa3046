package squashfs

import (
	"math"
	"slices"
	"strings"
)

// isDir marks the number of a directory among those of a listing's entries.
const isDir = 1 << 31

// plan says in which order inodes are written. All that are no directories come first, in the order in which a walk
// meets them: nothing in them depends on where the tables lie, so that they can be compressed on all cores. Then come
// the directories, each behind those below it, as a listing tells where the inodes are that it names. The root is last.
type plan struct {
	files []*Node
	links []uint32
	dirs  []plannedDir
	kids  []uint32 // for all entries of all directories: the place in files, or in dirs with the mark

	// What was met before: nodes of an image in the place that they had there, as nearly all are of the base, and
	// others.
	places []numbered
	seen   map[*Node]uint32
}

type numbered struct {
	node   *Node
	number uint32
}

type plannedDir struct {
	node    *Node
	kids    int    // where its entries begin
	parent  uint32 // place in dirs; of the root its own
	subdirs uint32
}

// newPlan plans a tree of about that many nodes.
func newPlan(root *Node, about int) (*plan, error) {
	p := &plan{
		seen: map[*Node]uint32{}, places: make([]numbered, about),
		files: make([]*Node, 0, about), links: make([]uint32, 0, about), kids: make([]uint32, 0, about),
	}
	if root == nil || root.Kind != Dir {
		return nil, invalid("the root of a squashfs is a directory")
	}
	last, err := p.dir(root, 0)
	if err != nil {
		err.path = "/" + strings.TrimPrefix(err.path, "/")
		return nil, err.full()
	}
	p.dirs[last].parent = last
	return p, nil
}

// treeError is what is wrong with an entry; the path is put together on the way up.
type treeError struct {
	path string
	why  error
}

func (e *treeError) full() error { return invalid("store %q: %w", e.path, e.why) }

func (p *plan) dir(n *Node, depth int) (uint32, *treeError) {
	d := plannedDir{node: n, kids: len(p.kids)}
	if depth > maxDepth {
		return 0, &treeError{why: invalid("directories are more than %d deep", maxDepth)}
	}
	if _, twice := p.met(n, isDir); twice {
		return 0, &treeError{why: invalid("the directory stands under two names")}
	}
	p.kids = slices.Grow(p.kids, len(n.Children))[:len(p.kids)+len(n.Children)]
	for i, e := range n.Children {
		kid, err := p.entry(n, i, depth)
		if err != nil {
			err.path = "/" + e.Name + err.path
			return 0, err
		}
		p.kids[d.kids+i] = kid
		if kid&isDir != 0 {
			d.subdirs++
		}
	}
	if len(p.dirs)+len(p.files) >= math.MaxInt32 {
		return 0, &treeError{why: invalid("more than %d files", math.MaxInt32)}
	}
	self := uint32(len(p.dirs))
	p.dirs = append(p.dirs, d)
	for _, kid := range p.kids[d.kids : d.kids+len(n.Children)] {
		if kid&isDir != 0 {
			p.dirs[kid&^isDir].parent = self
		}
	}
	return self, nil
}

func (p *plan) entry(parent *Node, i, depth int) (uint32, *treeError) {
	e := parent.Children[i]
	if err := CheckName(e.Name); err != nil {
		return 0, &treeError{why: err}
	}
	if i > 0 && e.Name <= parent.Children[i-1].Name {
		return 0, &treeError{why: invalid("names are not in byte order, or stand twice")}
	}
	if e.Node.Kind == Dir {
		kid, err := p.dir(e.Node, depth+1)
		return kid | isDir, err
	}
	if e.Node.Kind == 0 || e.Node.Kind > Socket {
		return 0, &treeError{why: invalid("a file of kind %d", e.Node.Kind)}
	}
	kid, again := p.met(e.Node, uint32(len(p.files)))
	if !again {
		p.files, p.links = append(p.files, e.Node), append(p.links, 0)
	}
	p.links[kid]++
	return kid, nil
}

// met returns a node that was met before its number; any other one gets the given one.
func (p *plan) met(n *Node, fresh uint32) (number uint32, again bool) {
	if n.serial > 0 && int(n.serial) <= len(p.places) {
		switch at := &p.places[n.serial-1]; at.node {
		case n:
			return at.number, true
		case nil:
			*at = numbered{n, fresh}
			return fresh, false
		}
	}
	if known, again := p.seen[n]; again {
		return known, true
	}
	p.seen[n] = fresh
	return fresh, false
}

// inodes counts all inodes; the numbers of files are their places in files, + 1, and those of directories follow.
func (p *plan) inodes() uint32 { return uint32(len(p.files) + len(p.dirs)) }

func (p *plan) number(kid uint32) uint32 {
	if kid&isDir != 0 {
		return uint32(len(p.files)) + kid&^isDir + 1
	}
	return kid + 1
}

// pathOf finds a node's first path, for an error.
func pathOf(root, n *Node) string {
	found := "/"
	stop := invalid("found")
	_ = root.Walk(func(path string, at *Node) error {
		if at == n {
			found = path
			return stop
		}
		return nil
	})
	return found
}
