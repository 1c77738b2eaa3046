package graft

import (
	"encoding/binary"
	"errors"
	"strings"

	"slipway/images/squashfs"
	"slipway/images/tree"
	"slipway/internal/errs"
)

// ErrNotSelfContained says that the tree cannot be told from the upper directory alone.
var ErrNotSelfContained = errors.New("its content cannot be told from the upper directory alone")

const overlayPrefix = "trusted.overlay."

// attributes sorts the xattrs of an entry: what squashfs holds, and whether overlayfs marks a directory as opaque. What
// is lost is counted; marks of overlayfs that point elsewhere are refused.
func (p *pass) attributes(path string, list []tree.Xattr) (kept *squashfs.Xattrs, opaque bool, err error) {
	var set []squashfs.Xattr
	for _, x := range list {
		if mark, ok := strings.CutPrefix(x.Name, overlayPrefix); ok {
			if !harmless(mark, x.Value) {
				return nil, false, errNotSelfContained(path, x)
			}
			opaque = opaque || mark == "opaque"
			continue
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
	return p.share(set), opaque, nil
}

func harmless(mark string, value []byte) bool {
	switch mark {
	case "opaque":
		return string(value) == "y"
	case "origin", "impure", "uuid", "nlink", "protattr":
		return true
	default:
		return false
	}
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
