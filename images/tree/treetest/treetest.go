// Package treetest tells whether two directory trees are the same, as far as squashfs can hold a tree: owners, modes,
// whole seconds, contents, links, devices and xattrs count; POSIX ACLs, fractions of seconds, inode numbers and sizes
// of directories do not. It is for tests.
package treetest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"slipway/images/tree"
)

// lister describes one tree.
type lister struct {
	t      testing.TB
	skip   []string
	mine   bool // what may not be read is passed over
	dev    uint64
	out    []entry
	groups map[[2]uint64]*group
}

type entry struct {
	path, line string
	group      *group // nil for directories
}

// group is the names of one inode.
type group struct {
	first string
	names int
}

// List describes each entry below root, and root itself, in one line that begins with its quoted path. Paths in skip,
// from root and without a leading slash, are left out with all below them. A directory of another file system is noted
// and not entered.
func List(t testing.TB, root string, skip ...string) []string {
	t.Helper()
	return (&lister{t: t, skip: skip}).list(root)
}

func (l *lister) list(root string) []string {
	l.t.Helper()
	dir, err := tree.OpenDir(root)
	if err != nil {
		l.t.Fatal(err)
	}
	defer dir.Close()
	st, err := tree.StatFile(dir)
	if err != nil {
		l.t.Fatal(err)
	}
	l.dev, l.groups = st.Dev, map[[2]uint64]*group{}
	l.out = append(
		l.out, entry{path: "", line: attributes(&st) + l.xattrs(tree.ReadXattrs(tree.FDPath(int(dir.Fd()))))},
	)
	l.dir(dir, "")
	return l.lines()
}

func (l *lister) lines() []string {
	var out []string
	for _, e := range l.out {
		line := fmt.Sprintf("%q %s", "/"+e.path, e.line)
		if e.group != nil && e.group.names > 1 {
			line += fmt.Sprintf(" one of %d names of %q", e.group.names, "/"+e.group.first)
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return out
}

// denied says whether an error is of what may not be read. All others end the test.
func (l *lister) denied(err error) bool {
	if err != nil && !(l.mine && errors.Is(err, fs.ErrPermission)) {
		l.t.Fatal(err)
	}
	return err != nil
}

func (l *lister) dir(dir *os.File, rel string) {
	list, err := tree.Names(dir)
	if l.denied(err) {
		return
	}
	for _, name := range list {
		if path := tree.Join(rel, name); !slices.Contains(l.skip, path) {
			l.entry(dir, name, path)
		}
	}
}

func (l *lister) entry(dir *os.File, name, path string) {
	st, err := tree.StatAt(dir, name)
	if l.denied(err) {
		return
	}
	e := entry{path: path, line: attributes(&st) + l.xattrs(tree.EntryXattrs(dir, name))}
	if !tree.IsDir(&st) {
		e.group = l.group(path, &st)
		e.line += l.content(dir, name, &st)
		l.out = append(l.out, e)
		return
	}
	if st.Dev != l.dev {
		l.out = append(l.out, entry{path: path, line: "another file system"})
		return
	}
	l.out = append(l.out, e)
	sub, err := tree.Child(dir, name, l.dev)
	if l.denied(err) {
		return
	}
	defer sub.Close()
	l.dir(sub, path)
}

func (l *lister) group(path string, st *unix.Stat_t) *group {
	key := [2]uint64{st.Dev, st.Ino}
	if l.groups[key] == nil {
		l.groups[key] = &group{first: path}
	}
	l.groups[key].names++
	return l.groups[key]
}

// Timeless returns lines without the times of paths, which begin with a slash: those of directories that are stripped
// empty count for nothing.
func Timeless(lines []string, paths ...string) []string {
	out := slices.Clone(lines)
	for i, line := range out {
		before, rest, _ := strings.Cut(line, " mtime ")
		if name, _, _ := strings.Cut(line, " mode "); slices.ContainsFunc(paths, func(p string) bool { return name == strconv.Quote(p) }) {
			_, after, _ := strings.Cut(rest, " ")
			out[i] = before + " " + after
		}
	}
	return out
}

func attributes(st *unix.Stat_t) string {
	line := fmt.Sprintf("mode %06o owner %d:%d mtime %d", st.Mode, st.Uid, st.Gid, st.Mtim.Sec)
	if kind := st.Mode & unix.S_IFMT; kind == unix.S_IFCHR || kind == unix.S_IFBLK {
		line += fmt.Sprintf(" device %d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))
	}
	return line
}

func (l *lister) xattrs(list []tree.Xattr, err error) string {
	if l.denied(err) {
		return ""
	}
	var line strings.Builder
	for _, x := range list {
		if !strings.HasPrefix(x.Name, "system.") && !strings.HasPrefix(x.Name, tree.OverlayPrefix) {
			fmt.Fprintf(&line, " %q=%x", x.Name, x.Value)
		}
	}
	return line.String()
}

func (l *lister) content(dir *os.File, name string, st *unix.Stat_t) string {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		target, err := os.Readlink(tree.Under(dir, name))
		if err != nil {
			l.t.Fatal(err)
		}
		return fmt.Sprintf(" -> %q", target)
	case unix.S_IFREG:
		return fmt.Sprintf(" size %d sha256 %s", st.Size, l.sum(dir, name))
	default:
		return ""
	}
}

func (l *lister) sum(dir *os.File, name string) string {
	f, err := tree.Open(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW)
	if l.denied(err) {
		return "?"
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		l.t.Fatal(err)
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

// Diff returns what only one of two lists has, each line marked with - or +, ordered by path. Nothing: the trees are
// equal.
func Diff(want, got []string) []string {
	var out []string
	for len(want) > 0 || len(got) > 0 {
		switch {
		case len(got) == 0 || len(want) > 0 && want[0] < got[0]:
			out, want = append(out, "- "+want[0]), want[1:]
		case len(want) == 0 || got[0] < want[0]:
			out, got = append(out, "+ "+got[0]), got[1:]
		default:
			want, got = want[1:], got[1:]
		}
	}
	return out
}
