package export

import (
	"iter"
	"slices"

	"slipway/images/squashfs"
)

// What says what an environment did to a path of its base.
type What uint8

// What can be done to a path.
const (
	Passed   What = iota // a directory that is as in the base, with changes below it
	Added                // the base has nothing there
	Replaced             // the base has other content or something of another kind there
	Changed              // the content is the base's; owner, mode, time, xattrs or links are not
	Deleted              // the environment has nothing there
)

func (w What) String() string {
	return [...]string{"passed", "added", "replaced", "changed", "deleted"}[w]
}

// Change is one path that is not as in the base.
type Change struct {
	Path   string // "/a/b"; "/" is the root
	What   What
	Node   *squashfs.Node // in the environment; nil when deleted
	Base   *squashfs.Node // in the base; nil when added
	Opaque bool           // a directory that hides all that the base has at its path
	Link   string         // the earlier path of the same inode, when this is a further name of it
}

// Changes returns what differs between a base and an environment made of it, parents before children and in byte order.
// Names of one inode that are not all as in the base are all given, as no overlay can link into the layer below.
// Contents are compared by where they are stored: an environment keeps the base's where they were. Without a base all
// is added.
func Changes(base, env *squashfs.Node) iter.Seq[Change] {
	return func(yield func(Change) bool) {
		c := comparison{
			groups: map[*squashfs.Node]group{}, heirs: map[*squashfs.Node]*squashfs.Node{},
			first: map[*squashfs.Node]string{}, yield: yield,
		}
		c.count(base, env)
		c.dir("/", base, env)
	}
}

// group is what is known of all names of one inode of the environment.
type group struct {
	names   int
	base    *squashfs.Node // the inode of the base that has every name so far
	changed bool
}

type comparison struct {
	groups  map[*squashfs.Node]group
	heirs   map[*squashfs.Node]*squashfs.Node // of inodes of the base that hold nothing: who is as they were
	first   map[*squashfs.Node]string         // the first name given of an inode with several
	pending []Change                          // directories that are given only when something below them is
	yield   func(Change) bool
}

// count looks at every name of every inode, as one changed name concerns the others.
func (c *comparison) count(base, env *squashfs.Node) {
	for _, p := range pairs(base, env) {
		if isDir(p.env) {
			c.count(p.base, p.env)
			continue
		}
		if p.env == nil {
			continue
		}
		g, known := c.groups[p.env]
		if !known {
			g.base = p.base
		}
		g.names++
		g.changed = g.changed || p.base == nil || p.base != g.base || !sameAttributes(p.base, p.env) ||
			!sameContent(p.base, p.env) ||
			!c.inherits(p.base, p.env)
		c.groups[p.env] = g
	}
}

// inherits says whether an inode is the first to be as one of the base was. Only what holds nothing can be so twice:
// when names of one inode became inodes of their own.
func (c *comparison) inherits(base, env *squashfs.Node) bool {
	if env.Size() > 0 {
		return true
	}
	if _, known := c.heirs[base]; !known {
		c.heirs[base] = env
	}
	return c.heirs[base] == env
}

// dir returns what changed at and below a directory of the environment; false when nobody wants more.
func (c *comparison) dir(path string, base, env *squashfs.Node) bool {
	change := Change{Path: path, Node: env, Base: base}
	switch {
	case base == nil:
		change.What = Added
	case !isDir(base) || path != "/" && c.hidesAll(base, env): // an overlay's root is always merged
		change.What, change.Opaque = Replaced, true
	case !sameAttributes(base, env):
		change.What = Changed
	}
	c.pending = append(c.pending, change)
	if change.What != Passed && !c.flush() {
		return false
	}
	if change.Opaque {
		base = nil
	}
	for name, p := range pairs(base, env) {
		if !c.entry(join(path, name), p) {
			return false
		}
	}
	if n := len(c.pending); n > 0 { // nothing at or below it was given
		c.pending = c.pending[:n-1]
	}
	return true
}

func (c *comparison) entry(path string, p pair) bool {
	switch {
	case p.env == nil:
		return c.give(Change{Path: path, What: Deleted, Base: p.base})
	case isDir(p.env):
		return c.dir(path, p.base, p.env)
	case !c.groups[p.env].changed:
		return true
	}
	change := Change{Path: path, Node: p.env, Base: p.base, What: Replaced}
	switch {
	case p.base == nil:
		change.What = Added
	case sameContent(p.base, p.env):
		change.What = Changed
	}
	if c.groups[p.env].names > 1 {
		change.Link = c.first[p.env]
		if change.Link == "" {
			c.first[p.env] = path
		}
	}
	return c.give(change)
}

// give hands out a change, the directories that lead to it first.
func (c *comparison) give(change Change) bool {
	c.pending = append(c.pending, change)
	return c.flush()
}

func (c *comparison) flush() bool {
	for _, p := range c.pending {
		if !c.yield(p) {
			return false
		}
	}
	c.pending = c.pending[:0]
	return true
}

// hidesAll says whether nothing that a directory of the base holds is left in the environment, and something is
// deleted.
func (c *comparison) hidesAll(base, env *squashfs.Node) bool {
	deleted := false
	for _, p := range pairs(base, env) {
		if p.base == nil {
			continue
		}
		if isDir(p.base) && isDir(p.env) || p.env != nil && !isDir(p.env) && !c.groups[p.env].changed {
			return false
		}
		deleted = deleted || p.env == nil
	}
	return deleted
}

// pair is what two trees have at one path; nil for nothing.
type pair struct{ base, env *squashfs.Node }

// pairs goes through the names of two directories together, in byte order. What is no directory has no names.
func pairs(base, env *squashfs.Node) iter.Seq2[string, pair] {
	return func(yield func(string, pair) bool) {
		b, e := children(base), children(env)
		for len(b) > 0 || len(e) > 0 {
			var p pair
			var name string
			if len(e) == 0 || len(b) > 0 && b[0].Name <= e[0].Name {
				name, p.base = b[0].Name, b[0].Node
			} else {
				name = e[0].Name
			}
			if len(e) > 0 && e[0].Name == name {
				p.env, e = e[0].Node, e[1:]
			}
			if p.base != nil {
				b = b[1:]
			}
			if !yield(name, p) {
				return
			}
		}
	}
}

func children(n *squashfs.Node) []squashfs.Entry {
	if n == nil {
		return nil
	}
	return n.Children
}

func isDir(n *squashfs.Node) bool { return n != nil && n.Kind == squashfs.Dir }

func join(dir, name string) string {
	if dir == "/" {
		return "/" + name
	}
	return dir + "/" + name
}

func sameAttributes(a, b *squashfs.Node) bool {
	return a == b || a.Mode == b.Mode && a.UID == b.UID && a.GID == b.GID && a.MTime == b.MTime && sameXattrs(a.Xattrs, b.Xattrs)
}

func sameXattrs(a, b *squashfs.Xattrs) bool {
	if a == b {
		return true
	}
	return slices.EqualFunc(
		xattrs(a), xattrs(b),
		func(x, y squashfs.Xattr) bool { return x.Name == y.Name && string(x.Value) == string(y.Value) },
	)
}

func xattrs(x *squashfs.Xattrs) []squashfs.Xattr {
	if x == nil {
		return nil
	}
	return x.List
}

// sameContent compares what is not a directory, but for its attributes.
func sameContent(base, env *squashfs.Node) bool {
	return base == env || base.Kind == env.Kind && base.Rdev == env.Rdev && base.Target == env.Target && sameData(base.Data, env.Data)
}

// sameData compares places, not bytes: blocks and fragments of a base stand where they were in each of its
// environments, and an environment's own lie behind them.
func sameData(a, b *squashfs.Data) bool {
	if a == b {
		return true
	}
	if a == nil || b == nil {
		return length(a) == 0 && length(b) == 0
	}
	return a.Start == b.Start && a.Size == b.Size && a.Fragment == b.Fragment && a.Offset == b.Offset &&
		slices.Equal(a.Blocks, b.Blocks)
}

func length(d *squashfs.Data) uint64 {
	if d == nil {
		return 0
	}
	return d.Size
}
