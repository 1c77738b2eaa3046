package graft

import (
	"slices"
	"strings"

	"slipway/images/squashfs"
	"slipway/images/tree"
)

// merge returns the children of a directory: base's, covered by changes, less what rules strip. Both lists are sorted;
// a change without a node deletes. Base's own list comes back when it stays as it is.
func merge(base, changes []squashfs.Entry, rules tree.Live) []squashfs.Entry {
	if len(changes) == 0 && len(rules) == 0 {
		return base
	}
	out, same := make([]squashfs.Entry, 0, len(base)+len(changes)), true
	for _, b := range base {
		for len(changes) > 0 && changes[0].Name < b.Name {
			out, same = appendNode(out, changes[0]), same && changes[0].Node == nil
			changes = changes[1:]
		}
		e := squashfs.Entry{Name: b.Name}
		if len(changes) > 0 && changes[0].Name == b.Name {
			e, changes = changes[0], changes[1:]
		} else if stripped, below := rules.Enter(b.Name); !stripped {
			e.Node = strip(b.Node, below)
		}
		out, same = appendNode(out, e), same && e.Node == b.Node
	}
	for _, c := range changes {
		out, same = appendNode(out, c), same && c.Node == nil
	}
	if same {
		return base
	}
	return slices.Clip(out)
}

func appendNode(list []squashfs.Entry, e squashfs.Entry) []squashfs.Entry {
	if e.Node == nil {
		return list
	}
	return append(list, e)
}

// strip returns n without what rules match below it: n itself when they match nothing.
func strip(n *squashfs.Node, rules tree.Live) *squashfs.Node {
	if n.Kind != squashfs.Dir || len(rules) == 0 {
		return n
	}
	children := merge(n.Children, nil, rules)
	if len(children) == len(n.Children) && (len(children) == 0 || &children[0] == &n.Children[0]) {
		return n
	}
	return n.With(children)
}

// child finds name in a sorted list, nil when it is not there.
func child(list []squashfs.Entry, name string) *squashfs.Node {
	i, found := slices.BinarySearchFunc(
		list, name, func(e squashfs.Entry, name string) int { return strings.Compare(e.Name, name) },
	)
	if !found {
		return nil
	}
	return list[i].Node
}
