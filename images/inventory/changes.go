package inventory

import (
	"strings"

	"slipway/images/squashfs"
)

// differ walks two trees side by side.
type differ struct {
	enter func(path string) bool // whether to look into a directory; nil: into all
	// Every path that is not the very same node; nil where there is none.
	each func(path string, old, now *squashfs.Node) error
}

// dirs walks two directories; either may be nil, or no directory.
func (d differ) dirs(at string, old, now *squashfs.Node) error {
	if old == now || d.enter != nil && !d.enter(at) {
		return nil
	}
	a, b := children(old), children(now)
	for len(a) > 0 || len(b) > 0 {
		var x, y *squashfs.Node
		var name string
		switch order := compareHeads(a, b); {
		case order < 0:
			name, x, a = a[0].Name, a[0].Node, a[1:]
		case order > 0:
			name, y, b = b[0].Name, b[0].Node, b[1:]
		default:
			name, x, y, a, b = a[0].Name, a[0].Node, b[0].Node, a[1:], b[1:]
		}
		if err := d.pair(at+"/"+name, x, y); err != nil {
			return err
		}
	}
	return nil
}

func (d differ) pair(at string, old, now *squashfs.Node) error {
	if old == now {
		return nil
	}
	if err := d.each(at, old, now); err != nil {
		return err
	}
	if children(old) == nil && children(now) == nil {
		return nil
	}
	return d.dirs(at, old, now)
}

func children(n *squashfs.Node) []squashfs.Entry {
	if n == nil || n.Kind != squashfs.Dir {
		return nil
	}
	return n.Children
}

// compareHeads says which list has the earlier name; an empty one has none.
func compareHeads(a, b []squashfs.Entry) int {
	switch {
	case len(b) == 0:
		return -1
	case len(a) == 0:
		return 1
	}
	return strings.Compare(a[0].Name, b[0].Name)
}
