package graft

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"

	"slipway/images/squashfs"
	"slipway/images/tree"
	"slipway/internal/errs"
)

// ErrNotSelfContained says that the tree cannot be told from the upper directory alone.
var ErrNotSelfContained = errors.New("its content cannot be told from the upper directory alone")

// otherPrefixes are those of overlays that users mount: the kernel's with userxattr, and fuse-overlayfs. In an overlay
// of root's they are users' own attributes, such as those of containers that somebody runs within a session.
func otherPrefixes() []string { return []string{tree.UserOverlayPrefix, tree.FuseOverlayPrefix} }

// marks is what overlayfs says of an entry of an upper directory.
type marks struct {
	opaque   bool   // a directory: nothing of the base's is in it
	redirect string // where in the base its entries are, or its content: a path, or a name beside it
	metacopy bool   // a file: its content is the base's
}

// add takes a mark in. It is false for one that says more than is understood.
func (m *marks) add(name string, value []byte) bool {
	switch name {
	case "opaque":
		m.opaque = true
		return string(value) == "y"
	case "redirect":
		m.redirect = string(value)
		return m.redirect != ""
	case "metacopy":
		m.metacopy = true
		return true
	default:
		return tree.HarmlessOverlayMark(name)
	}
}

// attributes sorts the xattrs of an entry: what squashfs holds, and what overlayfs marks. What is lost is counted;
// marks that are not known are refused.
func (p *pass) attributes(path string, list []tree.Xattr) (kept *squashfs.Xattrs, said marks, err error) {
	var set []squashfs.Xattr
	for _, x := range list {
		// an overlay that is mounted shows none of its own
		if mark, ok := strings.CutPrefix(x.Name, tree.OverlayPrefix); ok && !p.g.whole() {
			if !said.add(mark, x.Value) {
				return nil, said, errNotSelfContained(path, x)
			}
			continue
		}
		if err := p.ofOneKind(path, x); err != nil {
			return nil, said, err
		}
		switch namespace, _, _ := strings.Cut(x.Name, "."); {
		case namespace == "user" || namespace == "trusted" || namespace == "security":
			set = append(set, squashfs.Xattr{Name: x.Name, Value: x.Value})
		case strings.HasPrefix(x.Name, "system.posix_acl_"):
			p.losses.ACLs.add(path)
		default:
			p.losses.Xattrs.add(path)
		}
	}
	return p.share(set), said, nil
}

// ofOneKind refuses an attribute by which a user's overlay would mark what the image has as well. Of nothing else could
// it be told whether it is a mark, and the two readings are different trees: no fallback may choose either.
func (p *pass) ofOneKind(path string, x tree.Xattr) error {
	marks := func(prefix string) bool { return strings.HasPrefix(x.Name, prefix) }
	if p.g.whole() || !slices.ContainsFunc(otherPrefixes(), marks) || p.g.cfg.Base.Lookup("/"+path) == nil {
		return nil
	}
	return errs.New(errs.Conflict, "/%s carries %s: it is the image's, and the attribute may mean that it was changed through an overlay of a user's", path, x.Name).
		With("take the attribute away (`setfattr -x " + x.Name + "`), or freeze such a session through its agent, which knows its overlay")
}

func errNotSelfContained(path string, x tree.Xattr) error {
	return errs.New(errs.Conflict, "/%s carries %s=%.80q: %w", path, x.Name, x.Value, ErrNotSelfContained).
		With("mount overlays on this host with redirect_dir=off and metacopy=off, and start the session anew")
}

// share gives equal sets one place in memory: a label that every file carries is held once.
func (p *pass) share(set []squashfs.Xattr) *squashfs.Xattrs {
	if len(set) == 0 {
		return nil
	}
	var key []byte
	for _, x := range set {
		key = append(binary.AppendUvarint(key, uint64(len(x.Name))), x.Name...)
		key = append(binary.AppendUvarint(key, uint64(len(x.Value))), x.Value...)
	}
	if known, ok := p.sets[string(key)]; ok {
		return known
	}
	s := &squashfs.Xattrs{List: set}
	p.sets[string(key)] = s
	return s
}
