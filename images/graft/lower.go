package graft

import (
	"strings"

	"slipway/images/squashfs"
	"slipway/images/tree"
)

// lower is what of the base lies under a directory of the upper one; without a node there is nothing.
type lower struct {
	path string // in the base, which is another one below a directory that was renamed
	node *squashfs.Node
}

func (l lower) children() []squashfs.Entry {
	if l.node == nil {
		return nil
	}
	return l.node.Children
}

// dir returns what lies under the subdirectory called name.
func (l lower) dir(name string) lower {
	n := child(l.children(), name)
	if n == nil || n.Kind != squashfs.Dir {
		return lower{}
	}
	return lower{tree.Join(l.path, name), n}
}

// renamed returns what the base has where a redirect leads: a path in the whole of it, or a name beside the entry.
func (p *pass) renamed(redirect string, parent lower) lower {
	path, whole := strings.CutPrefix(redirect, "/")
	switch {
	case whole:
		return lower{path, lookup(p.g.baseRoot(), path)}
	case strings.Contains(redirect, "/"):
		return lower{}
	default:
		return lower{tree.Join(parent.path, redirect), child(parent.children(), redirect)}
	}
}

// beneath returns what the marks of a directory leave of what lies under it, or put there.
func (p *pass) beneath(path string, said marks, below, parent lower) (lower, error) {
	switch {
	case path == "": // overlayfs always merges the root
		return below, nil
	case said.opaque:
		return lower{}, nil
	case said.redirect != "":
		return p.renamedDir(path, said.redirect, parent)
	default:
		return below, nil
	}
}

// renamedDir returns what lies under a directory that was renamed. A base has not all that its image has in a directory
// where strip rules match, and more than it where it was completed.
func (p *pass) renamedDir(path, redirect string, parent lower) (lower, error) {
	from := p.renamed(redirect, parent)
	if from.node == nil || from.node.Kind != squashfs.Dir || from.path == "" || p.strips(from.path) ||
		p.completed(from.path) {
		return lower{}, errNotSelfContained(
			path, tree.Xattr{Name: tree.OverlayPrefix + "redirect", Value: []byte(redirect)},
		)
	}
	return from, nil
}

// strips says whether a rule matches a directory, or may match what is below it.
func (p *pass) strips(path string) bool {
	rules := p.g.cfg.Strip.Top()
	for name := range strings.SplitSeq(path, "/") {
		stripped, below := rules.Enter(name)
		if stripped {
			return true
		}
		rules = below
	}
	return len(rules) > 0
}

// completed says whether the base has anything at a path, or below it, that its image has not.
func (p *pass) completed(path string) bool {
	for _, e := range skeleton() {
		if e.path != path && !strings.HasPrefix(e.path, path+"/") {
			continue
		}
		if n := lookup(p.g.baseRoot(), e.path); n != nil && n.MTime == generatedAt {
			return true
		}
	}
	return false
}

// keptContent returns the content of a file of which the upper directory has all but that.
func (p *pass) keptContent(e *entry, redirect string, parent lower) (*squashfs.Data, error) {
	from := lower{node: child(parent.children(), e.name)}
	if redirect != "" {
		from = p.renamed(redirect, parent)
	}
	if from.node == nil || from.node.Kind != squashfs.File || from.node.Size() != uint64(e.stat.Size) {
		return nil, errNotSelfContained(
			e.path, tree.Xattr{Name: tree.OverlayPrefix + "metacopy", Value: []byte(redirect)},
		)
	}
	return from.node.Data, nil
}
