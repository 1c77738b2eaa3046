package changeset

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"slipway/images/tree"
	"slipway/internal/errs"
)

// Marks says by which program an upper directory was written, and so what stands for a deletion in it. It cannot be
// told from the directory: what is a mark to one is a user's own attribute or file to the other.
type Marks string

// The programs.
const (
	// The kernel's overlay, mounted by root: attributes trusted.overlay.*, which only root reads.
	Trusted Marks = "trusted"
	User    Marks = "user" // the kernel's, mounted in a user's namespace with userxattr: attributes user.overlay.*
	Fuse    Marks = "fuse" // fuse-overlayfs: files .wh.*, attributes user.fuseoverlayfs.*
)

func (m Marks) check() error {
	if m != Trusted && m != User && m != Fuse {
		return errs.Bad("marks", m, "trusted, user or fuse")
	}
	return nil
}

// The names of files by which fuse-overlayfs marks what it may not mark otherwise.
const (
	whPrefix = ".wh."
	whOpaque = ".wh..wh..opq"
)

// child is a name of a directory.
type child struct {
	name    string
	deleted bool // no entry has this name, another one says that it is deleted
	opaque  bool // the same, and there is an entry too: it hides what the image has
}

// children returns the names in a directory as the session saw them, those that were deleted too, in byte order.
func (m Marks) children(list []string) (names []child, opaque bool) {
	hidden := map[string]bool{}
	for _, name := range list {
		rest, marked := strings.CutPrefix(name, whPrefix)
		switch {
		case m != Fuse || !marked:
			names = append(names, child{name: name})
		case name == whOpaque:
			opaque = true
		case rest != "" && rest != "." && rest != "..":
			hidden[rest] = true
		}
	}
	for i := range names {
		names[i].opaque = hidden[names[i].name]
		delete(hidden, names[i].name)
	}
	for name := range hidden {
		names = append(names, child{name: name, deleted: true})
	}
	slices.SortFunc(names, func(a, b child) int { return strings.Compare(a.name, b.name) })
	return names, opaque
}

// sense is what the attributes of an entry mean.
type sense struct {
	own      []tree.Xattr // the user's
	opaque   bool
	sparse   bool // a directory in which files may be deletions by their attribute
	whiteout bool // it is one, if its directory is sparse
	stat     string
}

// sort tells the user's own attributes from the overlay's.
func (m Marks) sort(path string, list []tree.Xattr) (sense, error) {
	var s sense
	for _, x := range list {
		mark, of := m.mark(x.Name)
		switch {
		case !of && strings.HasPrefix(x.Name, tree.OverlayPrefix): // on the other side it would be a mark
			return s, notSelfContained(path, x)
		case !of:
			s.own = append(s.own, x)
		case mark == "opaque" && string(x.Value) == "y":
			s.opaque = true
		case mark == "opaque" && string(x.Value) == "x" && m != Fuse:
			s.sparse = true
		case mark == "whiteout" && m != Fuse:
			s.whiteout = true
		case mark == "override_stat" && m == Fuse:
			s.stat = string(x.Value)
		case !tree.HarmlessOverlayMark(mark):
			return s, notSelfContained(path, x)
		}
	}
	return s, nil
}

// mark returns the rest of an attribute's name that is not the user's.
func (m Marks) mark(name string) (rest string, of bool) {
	prefixes := map[Marks][]string{
		Trusted: {tree.OverlayPrefix},
		User:    {tree.UserOverlayPrefix},
		Fuse:    {tree.FuseOverlayPrefix, tree.UserOverlayPrefix, tree.OverlayPrefix, "security.fuseoverlayfs."},
	}
	for _, p := range prefixes[m] {
		if rest, of = strings.CutPrefix(name, p); of {
			return rest, true
		}
	}
	if m == Fuse && name == "user.containers.override_stat" {
		return "override_stat", true
	}
	return "", false
}

func notSelfContained(path string, x tree.Xattr) error {
	return errs.New(
		errs.Conflict, "/%s carries %s=%.80q: its content cannot be told from the changes alone", path, x.Name, x.Value,
	).With("let overlays be mounted with redirect_dir=off and metacopy=off there, and start the session anew")
}

// override reads what fuse-overlayfs says that an entry is, where it could not make it so: uid:gid:mode, and perhaps
// :kind.
func (e *entry) override(text string) error {
	parts := strings.SplitN(text, ":", 4)
	bad := fmt.Errorf("override_stat=%.80q is not understood", text)
	if len(parts) < 3 {
		return bad
	}
	uid, err1 := strconv.ParseUint(parts[0], 10, 32)
	gid, err2 := strconv.ParseUint(parts[1], 10, 32)
	mode, err3 := strconv.ParseUint(parts[2], 8, 32)
	if err1 != nil || err2 != nil || err3 != nil {
		return bad
	}
	e.uid, e.gid, e.mode = uint32(uid), uint32(gid), e.mode&unix.S_IFMT|uint32(mode)&0o7777
	if len(parts) == 3 {
		return nil
	}
	return e.become(parts[3], bad)
}

// become makes an entry of another kind of an empty file.
func (e *entry) become(kind string, bad error) error {
	kind, rest, device := strings.Cut(kind, "-")
	formats := map[string]uint32{
		"file": unix.S_IFREG, "dir": unix.S_IFDIR, "pipe": unix.S_IFIFO, "socket": unix.S_IFSOCK, "char": unix.S_IFCHR,
		"block": unix.S_IFBLK,
	}
	format, known := formats[kind]
	isDevice := format == unix.S_IFCHR || format == unix.S_IFBLK
	is := e.mode & unix.S_IFMT
	// A regular file may stand for all but a directory.
	stands := format == is || is == unix.S_IFREG && format != unix.S_IFDIR
	if !known || device != isDevice || !stands {
		return bad
	}
	if isDevice {
		major, minor, _ := strings.Cut(rest, "-")
		a, err1 := strconv.ParseUint(major, 10, 32)
		b, err2 := strconv.ParseUint(minor, 10, 32)
		if err1 != nil || err2 != nil || a|b == 0 && format == unix.S_IFCHR {
			return bad
		}
		e.rdev = unix.Mkdev(uint32(a), uint32(b))
	}
	e.mode = format | e.mode&0o7777
	return nil
}
